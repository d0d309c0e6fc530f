"""Counts in memory, by the minute, and writes the counts in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock
from shared.engine.ports import CountSink
from shared.errors import StorageUnavailable
from shared.metrics import CountRow, Metric, Series, Span, Sum, add, once

EVERY = timedelta(seconds=10)  # at most: nothing is written while nothing is counted
TRIED_FOR = timedelta(hours=1)  # … after a row's time, while storage fails
MAX_SERIES = 50_000  # in memory between two writes
MAX_ROWS = 20_000  # in memory while storage fails
_STRAYS = timedelta(minutes=1)  # how long after its time a row may still be counted to
_LENGTHS = {Span.MINUTE: timedelta(minutes=1), Span.HOUR: timedelta(hours=1)}


class _Place(NamedTuple):
    start: datetime
    span: Span
    topic: str
    subscription: str


class _Running:
    """What was counted at one place so far, and whether storage knows."""

    def __init__(self) -> None:
        self.counts: dict[Series, Sum] = {}
        self.is_stored = False


class BufferedMetrics:
    """
    Metrics: `count` adds to a dictionary; a thread of its own writes what has changed.

    *instance* tells this process from all others, for ever. Counts that can't be written within an
    hour after their time are lost, and so are those that find no room.
    """

    def __init__(self, sink: CountSink, clock: Clock, instance: str) -> None:
        self._sink = sink
        self._clock = clock
        self._instance = instance
        self._lock = threading.Lock()
        self._new: dict[tuple[datetime, str, str, Series], Sum] = {}
        self._is_lossy = False
        self._writing = threading.Lock()
        self._running: dict[_Place, _Running] = {}  # only under _writing
        self._fails = False

    def count(
        self,
        metric: Metric,
        topic: str,
        subscription: str = "",
        *,
        by: float = 1,
        **dimensions: str,
    ) -> None:
        minute = self._clock.now().replace(second=0, microsecond=0)
        named = tuple(sorted((n, str(v)) for n, v in dimensions.items())) if dimensions else ()
        series = Series(metric, named)
        key = (minute, topic.lower(), subscription.lower(), series)
        sum_ = once(by)
        with self._lock:
            known = self._new.get(key)
            if known is None and len(self._new) >= MAX_SERIES:
                self._is_lossy = True
                return
            self._new[key] = known.plus(sum_) if known else sum_

    def start(self, sleep: Callable[[float], object]) -> None:
        """Write every few seconds from now on; *sleep* takes seconds."""

        def run() -> None:
            while True:
                sleep(EVERY.total_seconds())
                self.flush()

        threading.Thread(target=run, name="metrics", daemon=True).start()

    def flush(self) -> None:
        """Write what has changed. Never raises; what can't be written is tried again."""
        with self._writing:
            with self._lock:
                new, self._new = self._new, {}
                is_lossy, self._is_lossy = self._is_lossy, False
            for (minute, topic, subscription, series), sum_ in new.items():
                self._add(minute, topic, subscription, series, sum_)
            lost = self._forget()
            if is_lossy or lost:
                telemetry.error("metrics.lost", rows=lost)
            self._write()

    def _add(
        self, minute: datetime, topic: str, subscription: str, series: Series, sum_: Sum
    ) -> None:
        hour = minute.replace(minute=0)
        places = {
            _Place(minute, Span.MINUTE, topic, subscription),
            _Place(minute, Span.MINUTE, topic, ""),  # with the sums over its subscriptions
            _Place(hour, Span.HOUR, topic, subscription),
        }
        for place in places:
            running = self._running.setdefault(place, _Running())
            add(running.counts, {series: sum_})
            running.is_stored = False

    def _forget(self) -> int:
        """Forget what is over and stored, or can't be stored any more; return how much is lost."""
        now = self._clock.now()
        lost = 0
        for place in sorted(self._running):
            running = self._running[place]
            end = place.start + _LENGTHS[place.span]
            too_late = now - end > TRIED_FOR or len(self._running) > MAX_ROWS
            if too_late or (running.is_stored and end + _STRAYS <= now):
                del self._running[place]
                lost += not running.is_stored
        return lost

    def _write(self) -> None:
        changed = [place for place, running in self._running.items() if not running.is_stored]
        if not changed:
            return
        rows = [
            CountRow(
                span=place.span,
                start=place.start,
                topic=place.topic,
                subscription=place.subscription,
                instance=self._instance,
                counts=self._running[place].counts,
            )
            for place in changed
        ]
        try:
            self._sink.write(rows)
        except Exception as error:  # noqa: BLE001 - counting disturbs nobody
            if not self._fails:
                detail = str(error) if isinstance(error, StorageUnavailable) else repr(error)
                telemetry.error("metrics.unsaved", rows=len(rows), detail=detail)
            self._fails = True
            return
        self._fails = False
        for place in changed:
            self._running[place].is_stored = True
