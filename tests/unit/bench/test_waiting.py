"""When the benchmark takes its look at a host whose events wait for retry."""

from __future__ import annotations

import pytest

from bench.isolation import await_first_attempts


def test_events_that_are_held_need_no_attempt_of_their_own() -> None:
    """A failing endpoint is held after some attempts: so many as there are events never come."""
    seen = iter([3, 1, 0])
    depths = {"deliveries": 3, "retries": 0, "waiting": 2}

    await_first_attempts(lambda: depths | {"deliveries": next(seen, 0)})

    assert next(seen, None) is None


@pytest.mark.parametrize(
    ("depths", "reason"),
    [
        ({"deliveries": 7, "retries": 0, "waiting": 0}, "not all was attempted"),
        ({"deliveries": 0, "retries": 0, "waiting": 0}, "nothing waits"),
    ],
)
def test_what_never_comes_is_reported(depths: dict[str, int], reason: str) -> None:
    with pytest.raises(RuntimeError, match=reason):
        await_first_attempts(lambda: depths, seconds=0)
