"""What a process does as its functions are loaded."""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator

import pytest

from shared.wiring import process
from shared.wiring.function_app import FunctionApp


@pytest.fixture(autouse=True)
def _threshold() -> Iterator[None]:
    kept = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*kept)


def test_a_burst_of_requests_begins_no_collection() -> None:
    assert _collections_of_a_burst() > 0  # the control: Python's own threshold

    FunctionApp().load_http()

    assert _collections_of_a_burst() == 0


def test_what_lasts_is_not_looked_at_again() -> None:
    gc.unfreeze()

    process.spare_what_lasts()

    assert gc.get_freeze_count() > 10_000
    gc.unfreeze()


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "found"),
    [
        (1024, 4096, [4096], 4096),
        (1024, 1_000_000, [16_384], 16_384),
        (256, 256, [], 256),
        (100_000, 1_000_000, [], 16_384),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, [], 16_384),
    ],
)
def test_it_gets_as_many_descriptors_as_it_may_have(
    soft: int, hard: int, raised: list[int], found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new[0]))

    assert (process.descriptors(), limits) == (found, raised)


def test_what_is_secret_does_not_follow_from_what_was_drawn_before() -> None:
    chance = process.SystemChance()

    def draw(seed: int) -> list[object]:
        chance._random.seed(seed)
        return [chance.id(), chance.jitter(), chance.secret_id(), chance.secret(8)]

    one, again = draw(1), draw(1)

    assert one[:2] == again[:2]
    assert not {*one[2:]} & {*again[2:]}


def test_the_clock_of_a_process_is_not_settled_before_storage_answers() -> None:
    assert not FunctionApp().clock.is_trusted


def test_pushes_and_requests_to_storage_go_by_the_time_in_which_the_process_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped for an hour, it has lost none: no deadline has passed."""
    monkeypatch.setattr("os.environ", {"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
    function_app = FunctionApp()

    http, on_storage = function_app.outbound.http, function_app.storage_pusher
    pools = [http._pool, on_storage._pool]
    clocks = [pool.clock for pool in pools] + [pool.openings.clock for pool in pools]

    assert {*clocks, function_app.store.queues._account.clock} == {function_app.awake}


def _collections_of_a_burst() -> int:
    gc.collect()
    before = gc.get_stats()[0]["collections"]
    burst: list[object] = [[] for _ in range(10_000)]
    count: int = gc.get_stats()[0]["collections"] - before
    assert burst
    return count
