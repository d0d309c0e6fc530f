"""Counts in memory, by the minute, until the counts are written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock, trusted_now
from shared.engine.ports import CountSink, Threads
from shared.errors import StorageUnavailable
from shared.metrics import CountRow, Metric, Series, Span, Sum, add

LATEST = 60.0  # seconds between the beginnings of two writes, if one takes 50 s or less
SHARE = 20  # times as long as writing took: it keeps the event loop from the interpreter
TRIED_FOR = timedelta(hours=1)  # after a row's time, while storage fails
MAX_SERIES = 50_000  # in memory between two writes
MAX_ROWS = 20_000  # in memory while storage fails
_GRACE = timedelta(minutes=1)  # after its time in which a row may still be counted to
_LENGTHS = {Span.MINUTE: timedelta(minutes=1), Span.HOUR: timedelta(hours=1)}


# Minute since 1970, topic, subscription, metric and dimensions: plain values, cheap to hash.
_Key = tuple[int, str, str, str, tuple[tuple[str, str], ...]]


class _RowKey(NamedTuple):
    start: datetime
    span: Span
    topic: str
    subscription: str


class BufferedMetrics:
    """
    Metrics: `count` adds to a dictionary; `flush` writes the rows that have changed.

    *instance* is unique to this process. `flush_if_due` is called *every* so long. Counts that
    can't be written within an hour after their time are lost, and so are those beyond the limits
    of memory.
    """

    def __init__(
        self, sink: CountSink, clock: Clock, threads: Threads, instance: str, every: timedelta
    ) -> None:
        self._sink = sink
        self._monotonic = threads.monotonic
        self._every = every.total_seconds()
        self._ended = self._took = 0.0  # the last write, in seconds
        self._clock = clock
        self._instance = instance
        self._lock = threads.lock()
        self._new: dict[_Key, tuple[float, int, float, float]] = {}
        self._is_lossy = False
        self._writing = threads.lock()
        # Only under _writing: all that was counted for a row so far, and rows that are not stored.
        self._rows: dict[_RowKey, dict[Series, Sum]] = {}
        self._changed: set[_RowKey] = set()
        self._fails = False

    def count(
        self,
        metric: Metric,
        topic: str,
        subscription: str = "",
        *,
        by: float | Sum = 1,
        **dimensions: str,
    ) -> None:
        minute = int(self._clock.now().timestamp()) // 60
        named = tuple(sorted((n, str(v)) for n, v in dimensions.items())) if dimensions else ()
        key = (minute, topic, subscription, metric.value, named)
        added = by if isinstance(by, Sum) else (by, 1, by, by)
        with self._lock:
            known = self._new.get(key)
            if known is not None:
                self._new[key] = (
                    known[0] + added[0],
                    known[1] + added[1],
                    min(known[2], added[2]),
                    max(known[3], added[3]),
                )
            elif len(self._new) < MAX_SERIES:
                self._new[key] = added
            else:
                self._is_lossy = True

    def leftovers(self) -> Iterator[str]:
        """Yield what is not stored."""
        if unwritten := len(self._new) + len(self._changed):
            yield f"counts: unwritten {unwritten}"

    def flush_if_due(self) -> None:
        """Do as `flush`, unless it would take more than its share of the time; never raises."""
        began = self._monotonic()
        rested = began - self._ended
        if rested >= SHARE * self._took or rested + self._every >= LATEST - self._took:
            self.flush()
            self._ended = self._monotonic()
            self._took = self._ended - began

    def flush(self) -> None:
        """Write the rows that have changed. Never raises; rows that can't be written are kept."""
        with self._writing:
            with self._lock:
                new, self._new = self._new, {}
                is_lossy, self._is_lossy = self._is_lossy, False
            for (minute, topic, subscription, metric, dimensions), sum_ in new.items():
                start = datetime.fromtimestamp(minute * 60, UTC)
                series = Series(Metric(metric), dimensions)
                self._add(start, topic.lower(), subscription.lower(), series, Sum(*sum_))
            lost = self._drop_old()
            if is_lossy or lost:
                telemetry.error("metrics.lost", rows=lost)
            self._write()

    def _add(
        self, minute: datetime, topic: str, subscription: str, series: Series, sum_: Sum
    ) -> None:
        hour = minute.replace(minute=0)
        keys = {
            _RowKey(minute, Span.MINUTE, topic, subscription),
            _RowKey(minute, Span.MINUTE, topic, ""),  # with the sums over its subscriptions
            _RowKey(hour, Span.HOUR, topic, subscription),
        }
        for key in keys:
            add(self._rows.setdefault(key, {}), {series: sum_})
        self._changed |= keys

    def _drop_old(self) -> int:
        """Drop rows that are over and stored, and those to give up; return how many are lost."""
        now, trusted = self._clock.now(), trusted_now(self._clock)
        lost = 0
        for key in sorted(self._rows):
            end = key.start + _LENGTHS[key.span]
            too_late = trusted - end > TRIED_FOR or len(self._rows) > MAX_ROWS
            is_stored = key not in self._changed
            if too_late or (is_stored and end + _GRACE <= now):
                del self._rows[key]
                self._changed.discard(key)
                lost += not is_stored
        return lost

    def _write(self) -> None:
        rows = [
            CountRow(**key._asdict(), instance=self._instance, counts=counts)
            for key, counts in self._rows.items()
            if key in self._changed
        ]
        if not rows:
            return
        try:
            self._sink.write(rows)
        except Exception as error:  # noqa: BLE001 - counting must not fail
            if not self._fails:
                detail = str(error) if isinstance(error, StorageUnavailable) else repr(error)
                telemetry.error("metrics.unsaved", rows=len(rows), detail=detail)
            self._fails = True
            return
        self._fails = False
        self._changed.clear()
