"""How jobs of the push pool end: detached, closed early, broken."""

from __future__ import annotations

import pytest

from tests.fakes import Seconds
from tests.unit.adapters.pool import (
    Text,
    Work,
    a_pool,
    assert_all_released,
    drained,
    job_of,
    upper,
)


def test_a_slow_job_ends_its_invocation_and_goes_on(time: Seconds, work: Work) -> None:
    """Once, after a second: then it holds none of the host's in_flight any more."""
    pool = a_pool(time)
    calls: list[float] = []

    def detach() -> bool:
        calls.append(time.seconds)
        return True

    run = job_of(pool, "key", list("abc"), work, detach=detach)
    next(run)
    work.wait_for(2)
    assert calls == []

    time.seconds = 1.1
    next(run)
    time.seconds = 5.0
    next(run)

    assert calls == [1.1]
    assert pool._slots._pushing == 0
    work.release()
    assert len(drained(run)) == 3
    assert_all_released(pool)


def test_a_job_whose_invocation_can_not_end_stays_in_flight(time: Seconds, work: Work) -> None:
    pool = a_pool(time)
    run = job_of(pool, "key", ["a"], work)
    next(run)
    time.seconds = 1.1
    next(run)

    assert pool._slots._pushing == 1
    work.release()
    assert len(drained(run)) == 1
    assert_all_released(pool)


def test_a_job_closed_early_begins_nothing_more(time: Seconds, work: Work) -> None:
    pool = a_pool(time)
    run = job_of(pool, "key", list("abcdef"), work)
    next(run)
    work.wait_for(2)

    run.close()  # type: ignore[attr-defined]
    work.release()
    assert_all_released(pool)

    assert sorted(work.items) == ["a", "b"]


def test_a_job_closed_while_it_waits_keeps_no_slot(time: Seconds, work: Work) -> None:
    pool = a_pool(time, slots=1)
    first = job_of(pool, "key", ["a"], work)
    next(first)
    second = job_of(pool, "key", ["b"], upper)
    next(second)

    second.close()  # type: ignore[attr-defined]
    work.release()

    assert drained(first) == [("a", "A")]
    assert drained(job_of(pool, "key", ["c"], upper)) == [("c", "C")]
    assert_all_released(pool)


def test_a_slot_granted_to_a_job_that_is_then_closed_is_released(time: Seconds, work: Work) -> None:
    pool = a_pool(time, slots=1)
    first = job_of(pool, "key", ["a"], work)
    next(first)
    second = job_of(pool, "key", ["b"], upper)
    next(second)
    work.release()
    drained(first)

    second.close()  # type: ignore[attr-defined]

    assert_all_released(pool)


@pytest.mark.parametrize("error", [ValueError("no"), IndexError("no"), SystemExit()], ids=repr)
def test_what_a_push_raises_ends_the_run(time: Seconds, error: BaseException) -> None:
    """An IndexError once looked like the end of the work, and the run stood still for a minute."""
    pool = a_pool(time, slots=1)
    begun: list[str] = []

    def push(item: str) -> Text:
        begun.append(item)
        if item == "b":
            raise error
        return Text(item)

    run = job_of(pool, "key", list("abc"), push)
    found: list[tuple[str, Text]] = []
    with pytest.raises(type(error)):
        found.extend(pair for finished in run for pair in finished)

    assert begun == ["a", "b"]
    assert drained(job_of(pool, "key", ["d"], push)) == [("d", "d")]
    assert_all_released(pool)
