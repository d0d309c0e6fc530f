"""Knows how many events wait for each subscription, and how many for their dead-letter blob."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock, Deadline
from shared.engine.ports import STATE, Resource, ResourceStore, Store, Table
from shared.engine.ports.measures import Unfinished
from shared.engine.timers.queue_watch import WatchQueues
from shared.errors import UNREADABLE, Conflict
from shared.metrics import Counts, Metric, count_of, most_frequent_error
from shared.subscriptions.subscription import SubscriptionKey

QUIET_FOR = timedelta(minutes=2)  # longer than any process takes to store its counts
MOST_LINES = 20  # a look
MOST_OFFSETS = 2000  # a row holds them all
_ENDED = (Metric.DELIVERY_SUCCESS, Metric.DEAD_LETTERED, Metric.DROPPED)
_ROW = (Table.TOPICS, STATE, "waiting")


class Offset(NamedTuple):
    """What the differences of a `Tally` were when nothing was unfinished."""

    open: int
    awaiting_blob: int = 0


Offsets = Mapping[SubscriptionKey, Offset]  # by topic and subscription in lower case
_NO_OFFSET = Offset(0)


class Tally(NamedTuple):
    """The events of a subscription in all time, as far as they are counted."""

    matched: int
    ended: int
    awaiting_blob: int

    @property
    def differences(self) -> Offset:
        return Offset(self.matched - self.ended, self.awaiting_blob)


def tallies(totals: Mapping[SubscriptionKey, Counts]) -> dict[SubscriptionKey, Tally]:
    return {
        key: Tally(
            count_of(counts, Metric.MATCHED),
            count_of(counts, *_ENDED),
            count_of(counts, Metric.AWAITING_BLOB),
        )
        for key, counts in totals.items()
        if key.subscription
    }


def unfinished_events(
    totals: Mapping[SubscriptionKey, Counts], offsets: Offsets
) -> dict[SubscriptionKey, Unfinished]:
    """Return the unfinished events, by subscription; those without any are left out."""
    found = {}
    for key, tally in tallies(totals).items():
        offset, differences = offsets.get(key, _NO_OFFSET), tally.differences
        awaiting_blob = max(differences.awaiting_blob - offset.awaiting_blob, 0)
        waiting = max(differences.open - offset.open - awaiting_blob, 0)
        if waiting or awaiting_blob:
            found[key] = Unfinished(waiting, awaiting_blob)
    return found


def read_offsets(state: ResourceStore) -> dict[SubscriptionKey, Offset]:
    """Read the stored offsets; none if they can't be read."""
    return _offsets(state.get(*_ROW))


def read_unfinished(store: Store) -> Mapping[SubscriptionKey, Unfinished]:
    """Return the unfinished events, as the store knows them, or as they are counted."""
    known = store.unfinished()
    if known is not None:
        return known
    return unfinished_events(store.counts.totals(), read_offsets(store.documents))


@dataclass(slots=True, kw_only=True)
class WatchWaiting:
    """
    A job of the dead-letter timer, after `WatchQueues`: logs the subscriptions for which most
    events wait, and learns what the differences are while none can.

    An offset is stored for each subscription whose tally has not changed for `QUIET_FOR`, while all
    queues were empty at every look: it has what a kill lost, and what replays counted twice.
    """

    queues: WatchQueues
    store: Store
    clock: Clock
    _looked_at: float | None = None  # seconds, as `WatchQueues.looked_at`
    _seen: dict[SubscriptionKey, tuple[Tally, float]] = field(default_factory=dict)

    def run(self, deadline: Deadline) -> None:
        """Look once after each look at the queues."""
        looked = self.queues.looked_at
        if looked is None or looked == self._looked_at or deadline.has_passed:
            return
        if self.queues.is_empty:
            self._correct(tallies(self.store.counts.totals()), looked)
        else:
            self._seen.clear()
            self._log(read_unfinished(self.store))
        self._looked_at = looked

    def _correct(self, found: Mapping[SubscriptionKey, Tally], now: float) -> None:
        before = self._seen
        self._seen = {
            key: before[key] if key in before and before[key][0] == tally else (tally, now)
            for key, tally in found.items()
        }
        quiet = {
            key: tally.differences
            for key, (tally, since) in self._seen.items()
            if now - since >= QUIET_FOR.total_seconds()
        }
        if not quiet:
            return
        stored = self.store.documents.get(*_ROW)
        known = _offsets(stored)
        offsets = {key: known.get(key, _NO_OFFSET) for key in found} | quiet
        largest = sorted(offsets, key=lambda key: -max(map(abs, offsets[key])))[:MOST_OFFSETS]
        offsets = {key: offsets[key] for key in largest if any(offsets[key])}
        if offsets != known:
            document = {"offsets": [[*key, *offset] for key, offset in sorted(offsets.items())]}
            with suppress(Conflict):  # Another instance was first.
                self.store.documents.put(*_ROW, document, stored.etag if stored else None)

    def _log(self, found: Mapping[SubscriptionKey, Unfinished]) -> None:
        waiting = [key for key in found if found[key].waiting]
        hours = self.store.counts.hours(self.clock.now()) if waiting else {}
        for key in sorted(waiting, key=lambda key: -found[key].waiting)[:MOST_LINES]:
            cause = most_frequent_error(hours.get(key, {})) or None
            telemetry.info(
                "events.waiting",
                topic=key.topic,
                subscription=key.subscription,
                events=found[key].waiting,
                awaiting_blob=found[key].awaiting_blob or None,
                cause=cause,
            )


def _offsets(row: Resource | None) -> dict[SubscriptionKey, Offset]:
    if row is None:
        return {}
    try:
        return {
            SubscriptionKey(topic, name): Offset(*map(int, offset))
            for topic, name, *offset in row.document["offsets"]
        }
    except UNREADABLE:
        return {}  # as if nothing was ever lost; the next quiet time replaces the row
