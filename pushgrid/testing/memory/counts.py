"""Metrics in memory."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from pushgrid.testing.memory.faults import MemoryPort, Seam, at_once, request
from shared.clock import Deadline
from shared.engine.ports import Chance
from shared.metrics import DEFINITIONS, CountRow, Counts, Definition, Metric, Span, Sum, total_of
from shared.subscriptions.subscription import SubscriptionKey

_BALANCE = Definition("", "")  # of a subscription, without dimensions


class Counted:
    """Metrics, and what was counted: by metric, place and dimensions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.totals: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def count(
        self,
        metric: Metric,
        topic: str,
        subscription: str = "",
        *,
        by: float | Sum = 1,
        **dimensions: str,
    ) -> None:
        defined = DEFINITIONS.get(metric, _BALANCE)
        if {*dimensions} != {*defined.dimensions} or defined.is_of_topic is bool(subscription):
            raise ValueError(f"{metric} is not counted by {dimensions} of '{topic}/{subscription}'")
        total = by.total if isinstance(by, Sum) else by
        with self._lock:
            self.totals[(metric, *map(str, dimensions.values()), topic, subscription)] += total

    def of(self, metric: Metric) -> dict[tuple[str, ...], float]:
        """Return what was counted of a metric: by dimensions, topic and subscription."""
        return {key[1:]: by for key, by in self.totals.items() if key[0] == metric}


class MemoryCounts(MemoryPort):
    """CountSink, CountReader and MetricRetention."""

    port = "counts"

    def __init__(self, seam: Seam = at_once, chance: Chance | None = None) -> None:
        super().__init__(seam, chance)
        self.rows: dict[tuple[Any, ...], CountRow] = {}
        self._sums: dict[SubscriptionKey, tuple[datetime, Counts]] = {}

    @request
    def write(self, rows: Sequence[CountRow]) -> None:
        for row in rows:
            key = (row.start, row.span, row.topic, row.subscription, row.instance)
            self.rows[key] = row._replace(counts=dict(row.counts))

    @request
    def minutes(
        self, topic: str, subscription: str, since: datetime, until: datetime
    ) -> Iterator[tuple[datetime, Counts]]:
        place = (Span.MINUTE, topic.lower(), subscription.lower())
        found = [self.rows[key] for key in sorted(self.rows) if key[1:4] == place]
        return iter([(row.start, row.counts) for row in found if since <= row.start < until])

    @request
    def hours(self, since: datetime) -> Mapping[SubscriptionKey, Counts]:
        first = since.replace(minute=0, second=0, microsecond=0)
        return {
            name: total_of(row.counts for row in rows if row.start >= first)
            for name, rows in self._hours().items()
            if any(row.start >= first for row in rows)
        }

    @request
    def totals(self) -> Mapping[SubscriptionKey, Counts]:
        return {name: total_of(self._parts(name)) for name in self._names()}

    @request
    def roll_up(self, before: datetime, forget: datetime, deadline: Deadline) -> int:
        del deadline
        rolled_up = 0
        for name in self._names():
            hours = [row for row in self._hours().get(name, []) if row.start < before]
            until, known = self._sums.get(name, (before, {}))
            if hours:
                last = max(row.start for row in hours)
                self._sums[name] = last, total_of([known, *(row.counts for row in hours)])
            elif until < forget:
                del self._sums[name]
            for row in hours:
                del self.rows[(row.start, row.span, *name, row.instance)]
            rolled_up += len(hours)
        return rolled_up

    @request
    def delete_before(self, day: date, deadline: Deadline) -> int:
        del deadline
        old = [k for k in self.rows if k[1] is Span.MINUTE and k[0].date() < day]
        for key in old:
            del self.rows[key]
        return len({key[0].date() for key in old})

    def _hours(self) -> dict[SubscriptionKey, list[CountRow]]:
        hours: dict[SubscriptionKey, list[CountRow]] = defaultdict(list)
        for row in self.rows.values():
            if row.span is Span.HOUR:
                hours[SubscriptionKey(row.topic, row.subscription)].append(row)
        return hours

    def _names(self) -> Sequence[SubscriptionKey]:
        return sorted({*self._hours(), *self._sums})

    def _parts(self, name: SubscriptionKey) -> list[Counts]:
        rows = [row.counts for row in self._hours().get(name, [])]
        return rows + ([self._sums[name][1]] if name in self._sums else [])
