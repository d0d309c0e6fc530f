"""Publishes troubles to subscribers of the deployment, once per subscription and minute."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.clock import Clock, Deadline, timestamp
from shared.delivery.furthest import SKEW
from shared.engine.caching.health_table import TableHealth
from shared.engine.operations.activity import Activity, GivenUp, latest_failure
from shared.engine.operations.subscription_state import read_availability
from shared.engine.operations.troubles import (
    Facts,
    Kind,
    failure_cause,
    held_why,
    remedy_of,
    words_of,
)
from shared.engine.ports import (
    STATE,
    AttemptReader,
    CountReader,
    Resource,
    ResourceStore,
    SubscriptionReader,
    Table,
)
from shared.engine.replaying.job import ReplayJob
from shared.engine.timers.source_events import SourceEvents
from shared.errors import UNREADABLE, Conflict
from shared.events.notices import NoticeKind, TroubleNotice, trouble_event
from shared.events.topic import DEPLOYMENT, SourceTopic
from shared.metrics import Counts, Metric
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

COUNTED_AFTER = timedelta(minutes=1)  # by then processes have stored their counts of a minute
LOOKED_BACK = timedelta(minutes=15)  # at most, after a time without runs
MOST_REPORTED = 500  # subscriptions in a run
MOST_CAUSES = 50  # subscriptions of whose attempts the latest is read
_ROW = (Table.TOPICS, STATE, "troubles")
_SOURCE = SourceTopic(DEPLOYMENT)
_KINDS = {
    Metric.HOLDS_BEGAN: NoticeKind.HOLD_BEGAN,
    Metric.HOLDS_ENDED: NoticeKind.HOLD_ENDED,
    Metric.DEAD_LETTERED: NoticeKind.DEAD_LETTERED,
    Metric.DROPPED: NoticeKind.DROPPED,
    Metric.ANSWERED_LATE: NoticeKind.ANSWERED_LATE,
}
_WITH_CAUSE = {NoticeKind.HOLD_BEGAN, NoticeKind.DEAD_LETTERED, NoticeKind.DROPPED}
_REMEDIES = {
    NoticeKind.HOLD_BEGAN: Kind.HELD,
    NoticeKind.HOLD_ENDED: "nothing: what waited is delivered within minutes",
    NoticeKind.DEAD_LETTERED: Kind.DEAD_LETTERING,
    NoticeKind.DROPPED: Kind.DROPPING,
    NoticeKind.ANSWERED_LATE: "answer first, then process the event: late answers cause duplicates",
}
Counted = dict[tuple[datetime, NoticeKind], Counter[str]]  # a minute's, by reason


@dataclass(slots=True, kw_only=True)
class TroubleNotices:
    """
    A job of the dead-letter timer: publishes what the counts of finished minutes show.

    Without subscribers, a run takes one query.
    """

    source_events: SourceEvents
    subscriptions: SubscriptionReader
    counts: CountReader
    attempts: AttemptReader
    health: TableHealth
    replays: Callable[[], Sequence[ReplayJob]]
    state: ResourceStore
    clock: Clock
    _until: datetime | None = field(default=None)  # all minutes before it are reported

    def run(self, deadline: Deadline) -> None:
        """Report each minute once; a run that is repeated sends the same events again."""
        until = (self.clock.now() - COUNTED_AFTER).replace(second=0, microsecond=0)
        is_reported = self._until is not None and until <= self._until <= until + SKEW
        if deadline.has_passed or is_reported or not self.clock.is_trusted:
            return
        topic = self.source_events.topic(_SOURCE)
        if topic is None:
            return
        stored = self.state.get(*_ROW)
        known = _reported_until(stored)
        if known and known > until + SKEW:
            known = None  # By a clock that was ahead.
        since = max(known or until, until - LOOKED_BACK)
        events = [trouble_event(topic, each) for each in self._notices(since, until)]
        if events:
            self.source_events.publish(topic, events)
        if since < until or known is None:
            with suppress(Conflict):  # Another instance has reported them.
                document = {"until": timestamp(until)}
                self.state.put(*_ROW, document, stored.etag if stored else None)
        self._until = until

    def _notices(self, since: datetime, until: datetime) -> Iterator[TroubleNotice]:
        if since >= until:
            return
        hours = self.counts.hours(since)
        troubled = [key for key in sorted(hours) if _is_reported(key) and _counted(hours[key])]
        for number, key in enumerate(troubled[:MOST_REPORTED]):
            found: Counted = defaultdict(Counter)
            for minute, counts in self.counts.minutes(*key, since, until):
                for kind, reasons in _counted(counts).items():
                    found[(minute, kind)].update(reasons)
            if found:
                yield from self._of_subscription(key, found, wants_cause=number < MOST_CAUSES)
        yield from self._ended_replays(since, until)

    def _of_subscription(
        self, key: SubscriptionKey, found: Counted, *, wants_cause: bool
    ) -> Iterator[TroubleNotice]:
        known = self.subscriptions.subscription(key)
        topic, name = known.key if known else key
        first = min(minute for minute, _ in found)
        failure = None
        if known and wants_cause and any(kind in _WITH_CAUSE for _, kind in found):
            failure = latest_failure(key, self.attempts, first, first - LOOKED_BACK)
        for (minute, kind), reasons in sorted(found.items()):
            cause = failure_cause(failure) if failure and kind in _WITH_CAUSE else ""
            if kind is NoticeKind.HOLD_BEGAN:
                cause = self._held(known, words_of(failure)) or cause
            activity = Activity(dropped=GivenUp(reasons, minute), failure=failure)
            yield TroubleNotice(
                kind=kind,
                topic=topic,
                subscription=name,
                minute=minute,
                count=sum(reasons.values()),
                reasons={reason: count for reason, count in reasons.items() if reason},
                cause=cause,
                remedy=_remedy(kind, known, activity),
            )

    def _held(self, known: EventSubscription | None, words: str) -> str:
        """Return why an endpoint is held now, with its *words*; nothing if it no longer is."""
        if known is None:
            return ""
        if known.pause:
            return f"paused by {known.pause.by}"
        return held_why(read_availability(known, self.health, self.clock.now()), words)

    def _ended_replays(self, since: datetime, until: datetime) -> Iterator[TroubleNotice]:
        ended: dict[tuple[SubscriptionKey, datetime], list[ReplayJob]] = defaultdict(list)
        for job in self.replays():
            if job.ended_at and since <= job.ended_at < until and not job.is_dry_run:
                minute = job.ended_at.replace(second=0, microsecond=0)
                ended[(_place(job), minute)].append(job)
        for (key, minute), jobs in sorted(ended.items()):
            if not _is_reported(key):
                continue
            whys = [each.why for each in jobs if each.why]
            yield TroubleNotice(
                kind=NoticeKind.REPLAY_ENDED,
                topic=key.topic,
                subscription=key.subscription,
                minute=minute,
                count=sum(each.progress.put for each in jobs),
                reasons=dict(Counter(each.state.value for each in jobs)),
                cause="; ".join(whys),
                remedy="pushgrid dead-letters jobs",
                replays=[each.id for each in jobs],
            )


def _is_reported(key: SubscriptionKey) -> bool:
    """Tell whether troubles of a subscription are reported: not if it receives the reports."""
    return key.topic.lower() != _SOURCE.joined


def _counted(counts: Counts) -> dict[NoticeKind, Counter[str]]:
    """Return what was counted of each kind, by reason; the empty one if it has none."""
    found: dict[NoticeKind, Counter[str]] = defaultdict(Counter)
    for series, sum_ in counts.items():
        if series.metric in _KINDS and (count := round(sum_.total)):
            reason = series.dimensions[0][1] if series.dimensions else ""
            found[_KINDS[series.metric]][reason] += count
    return found


def _remedy(kind: NoticeKind, known: EventSubscription | None, activity: Activity) -> str:
    if known is None:
        return "nothing: the event subscription was deleted"
    remedy: Kind | str = _REMEDIES[kind]
    if kind is NoticeKind.HOLD_BEGAN and known.pause:
        remedy = Kind.PAUSED
    if isinstance(remedy, Kind):
        return remedy_of(remedy, Facts(key=known.key, subscription=known, activity=activity))
    return remedy


def _place(job: ReplayJob) -> SubscriptionKey:
    """Return where a job's events went: to the subscription that it names, or its only source's."""
    if job.to:
        return job.to
    return job.sources[0].key if len(job.sources) == 1 else SubscriptionKey("", "")


def _reported_until(stored: Resource | None) -> datetime | None:
    if stored is None:
        return None
    try:
        return datetime.fromisoformat(stored.document["until"])
    except UNREADABLE:
        return None  # as if nothing was ever reported
