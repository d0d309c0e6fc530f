"""One failure among successes is no start of failing. Contract §3.6, probation."""

from __future__ import annotations

import pytest

from shared.delivery.health.endpoint_health import LatestPushes, Observation
from shared.delivery.outcome import Outcome
from tests.builders import terms
from tests.unit.delivery.observed import LATEST, seen

OK, BUSY, NOT_FOUND = Outcome.DELIVERED, Outcome.BUSY, Outcome.NOT_FOUND


def latest(*observations: Observation) -> LatestPushes:
    found = LatestPushes()
    for each in observations:
        found = found.followed_by(each)
    return found


@pytest.mark.parametrize(
    ("before", "failure", "is_isolated"),
    [
        pytest.param([], seen(BUSY, 1), False, id="nothing before"),
        pytest.param([seen(OK, 0)], seen(BUSY, 1), True, id="a success before"),
        pytest.param([seen(OK, 0)], seen(BUSY, 0, 9.999), True, id="just in time"),
        pytest.param([seen(OK, 0)], seen(BUSY, 0, 10), False, id="a success long ago"),
        pytest.param([seen(OK, 0, 5)], seen(BUSY, 0, 14), True, id="its end counts"),
        pytest.param([seen(OK, 0)], seen(NOT_FOUND, 299), True, id="a longer probation"),
        pytest.param([seen(OK, 0), seen(BUSY, 1)], seen(BUSY, 2), False, id="the second"),
        pytest.param(
            [seen(OK, 0), seen(Outcome.GENERIC_ERROR, 1)],
            seen(BUSY, 2),
            False,
            id="the second, of whatever kind",
        ),
        pytest.param(
            [seen(BUSY, 0), seen(OK, 1), seen(BUSY, 2), seen(OK, 3)],
            seen(BUSY, 4),
            True,
            id="every second one",
        ),
        pytest.param(
            [seen(OK, 0), seen(Outcome.BAD_REQUEST, 1)], seen(BUSY, 2), True, id="after a 400"
        ),
        pytest.param(
            [seen(Outcome.BAD_REQUEST, 1)], seen(BUSY, 2), False, id="a 400 is no success"
        ),
        pytest.param([seen(OK, 0)], seen(BUSY, 1, is_probe=True), False, id="a probe"),
        pytest.param(
            [seen(OK, 0, 40, is_late=True)], seen(BUSY, 41), True, id="after a late success"
        ),
        pytest.param([seen(OK, 0)], seen(Outcome.GENERIC_ERROR, 1), False, id="no probation"),
    ],
)
def test_a_failure_is_isolated(
    before: list[Observation], failure: Observation, *, is_isolated: bool
) -> None:
    assert latest(*before).is_isolated(failure, LATEST) is is_isolated


def test_the_time_since_the_success_is_scaled() -> None:
    before = latest(seen(OK, 0))

    assert before.is_isolated(seen(BUSY, 0.9), terms(time_scale=10))
    assert not before.is_isolated(seen(BUSY, 1), terms(time_scale=10))
