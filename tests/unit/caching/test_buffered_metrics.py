"""Counting in memory, and writing in the background what has changed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START, FakeClock, MemoryCounts
from shared.adapters.threads import SystemThreads
from shared.engine.caching import buffered_metrics
from shared.engine.caching.buffered_metrics import TRIED_FOR, BufferedMetrics
from shared.metrics import CountRow, Counts, Metric, Series, Sum, total_of
from tests.builders import CRM
from tests.functional.deployment import Logged

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
EVERY = timedelta(seconds=10)
DELIVERED = Series(Metric.DELIVERY_SUCCESS)
DROPPED = Series(Metric.DROPPED, (("DropReason", "x"),))


class Counting(MemoryCounts):
    """Counts the writes, too."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []

    def write(self, rows: Sequence[CountRow]) -> None:
        super().write(rows)
        self.writes.append(len(rows))

    def counts(self, subscription: str = "crm") -> Counts:
        every = self.minutes("orders", subscription, START - HOUR, START + 99 * HOUR)
        return total_of(counts for _, counts in every)

    def total(self, subscription: str = "crm") -> float:
        return self.counts(subscription)[DELIVERED].total


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def sink() -> Counting:
    return Counting()


@pytest.fixture
def recorder(sink: Counting, clock: FakeClock) -> BufferedMetrics:
    return BufferedMetrics(sink, clock, SystemThreads(clock.monotonic), "me", EVERY)


def deliver(recorder: BufferedMetrics, events: int = 1, name: str = "crm") -> None:
    recorder.count(Metric.DELIVERY_SUCCESS, "Orders", name, by=events)


def test_what_was_counted_is_written_with_the_topics_sum(
    recorder: BufferedMetrics, sink: Counting
) -> None:
    deliver(recorder, 2)
    deliver(recorder, 5)
    deliver(recorder, 1, name="ERP")
    recorder.count(Metric.DROPPED, "orders", "crm", DropReason="x")
    recorder.count(Metric.DELIVERY_SUCCESS, "orders", "crm", by=Sum.of([1, 9, 4]))

    recorder.flush()

    assert sink.counts() == {DELIVERED: Sum(21, 5, 1, 9), DROPPED: Sum(1, 1, 1, 1)}
    assert sink.total("erp") == 1
    assert sink.total("") == 22
    hours = {name: counts[DELIVERED].total for name, counts in sink.totals().items()}
    assert hours == {("orders", "crm"): 21, ("orders", "erp"): 1}


def test_only_what_is_new_is_written_and_only_by_flush(
    recorder: BufferedMetrics, sink: Counting
) -> None:
    recorder.flush()
    deliver(recorder)

    assert sink.writes == []
    recorder.flush()
    recorder.flush()
    assert sink.writes == [3]


def test_a_minute_is_overwritten_by_its_running_total(
    recorder: BufferedMetrics, sink: Counting, clock: FakeClock
) -> None:
    for _ in range(5):
        deliver(recorder)
        recorder.flush()
        clock.advance(timedelta(seconds=10))

    assert sink.total() == 5
    assert len({key[0] for key in sink.rows}) == 1


def test_processes_do_not_overwrite_each_other(sink: Counting, clock: FakeClock) -> None:
    for instance in "ab":
        recorder = BufferedMetrics(sink, clock, SystemThreads(), instance, EVERY)
        deliver(recorder)
        recorder.flush()

    assert sink.total() == 2


def test_minutes_and_hours_follow_each_other(
    recorder: BufferedMetrics, sink: Counting, clock: FakeClock
) -> None:
    for _ in range(100):
        deliver(recorder)
        recorder.flush()
        clock.advance(MINUTE)

    minutes = list(sink.minutes("orders", "crm", START, START + 2 * HOUR))
    assert [counts[DELIVERED].total for _, counts in minutes] == [1] * 100
    assert sink.totals()[CRM][DELIVERED].total == 100
    recorder.flush()
    assert len(recorder._rows) <= 3 + 2 * 2


def test_a_failing_storage_gets_everything_later(
    recorder: BufferedMetrics, sink: Counting, clock: FakeClock, logged: Logged
) -> None:
    """Also where it has stored what it did not confirm; the log has one line."""
    sink.fail_next("write", 3)
    sink.fail_next("write", 1, after=True)
    for _ in range(6):
        deliver(recorder)
        recorder.flush()
        clock.advance(MINUTE)

    assert sink.total() == 6
    assert sink.totals()[CRM][DELIVERED].total == 6
    assert len(logged("metrics.unsaved")) == 1
    assert logged("metrics.lost") == []


def test_what_can_not_be_written_for_an_hour_is_lost_and_said_so(
    recorder: BufferedMetrics, sink: Counting, clock: FakeClock, logged: Logged
) -> None:
    """Not later: hours are added up then, and must not come again."""
    sink.fail_next("write", 1)
    deliver(recorder)
    recorder.flush()
    clock.advance(TRIED_FOR + HOUR + MINUTE)

    recorder.flush()

    assert sink.rows == {}
    assert [line["rows"] for line in logged("metrics.lost")] == [3]


def test_a_jump_loses_no_counts(
    recorder: BufferedMetrics,
    sink: Counting,
    clock: FakeClock,
    logged: Logged,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were two hours old at once."""
    monkeypatch.setattr(FakeClock, "is_trusted", False)
    deliver(recorder)
    clock.jump(2 * HOUR)

    recorder.flush()

    assert sink.total() == 1
    assert logged("metrics.lost") == []


def test_memory_is_bounded(
    recorder: BufferedMetrics, sink: Counting, monkeypatch: pytest.MonkeyPatch, logged: Logged
) -> None:
    monkeypatch.setattr(buffered_metrics, "MAX_SERIES", 10)
    for number in range(30):
        deliver(recorder, name=f"s{number}")
    deliver(recorder, name="s0")

    recorder.flush()

    assert len(sink.totals()) == 10
    assert sink.total("s0") == 2
    assert len(logged("metrics.lost")) == 1


def test_rows_that_can_not_be_written_are_bounded(
    recorder: BufferedMetrics, sink: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffered_metrics, "MAX_ROWS", 10)
    sink.fail_next("write", 1)
    for number in range(30):
        deliver(recorder, name=f"s{number}")

    recorder.flush()
    recorder.flush()

    assert sink.writes == [10]


def test_no_fault_of_the_sink_ends_the_thread(
    recorder: BufferedMetrics, sink: Counting, logged: Logged
) -> None:
    deliver(recorder)
    sink.write = None  # type: ignore[method-assign, assignment]

    recorder.flush()

    assert "TypeError" in logged("metrics.unsaved")[0]["detail"]


def test_threads_count_side_by_side(recorder: BufferedMetrics, sink: Counting) -> None:
    def work() -> None:
        for _ in range(2000):
            deliver(recorder)

    threads = [threading.Thread(target=work) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # as if there were very many processors
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            recorder.flush()
    finally:
        sys.setswitchinterval(interval)
    recorder.flush()

    assert sink.total() == 8000


@pytest.mark.parametrize(("takes", "waits"), [(0, 10), (1, 20), (15, 40), (70, 10)])
def test_writing_takes_a_twentieth_of_the_time_at_most_and_begins_once_a_minute_at_least(
    recorder: BufferedMetrics, sink: Counting, clock: FakeClock, takes: int, waits: int
) -> None:
    written: list[timedelta] = []

    def write(_: Sequence[CountRow]) -> None:
        written.append(clock.now() - START)
        clock.advance(timedelta(seconds=takes))

    sink.write = write  # type: ignore[method-assign, assignment]
    for _ in range(12):
        deliver(recorder)
        recorder.flush_if_due()
        clock.advance(EVERY)

    assert written[1] - written[0] == timedelta(seconds=takes + waits)


def test_a_jump_delays_no_write(recorder: BufferedMetrics, sink: Counting) -> None:
    """Nor does it bring one forward: the rest between writes is not by the wall clock."""
    clock = FakeClock()
    recorder = BufferedMetrics(sink, clock, SystemThreads(clock.monotonic), "me", EVERY)
    for _ in range(2):
        deliver(recorder)
        recorder.flush_if_due()
        clock.jump(-HOUR)
        clock.advance(EVERY)

    assert sink.writes == [3, 3]
