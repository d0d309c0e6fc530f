"""Reads what has happened to each event subscription of late, from its counts and attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, NamedTuple

from shared.engine.operations.event_timeline import failure_documents
from shared.engine.ports import AttemptChoice, AttemptReader, Store
from shared.engine.ports.measures import Unfinished
from shared.engine.timers.waiting_events import read_unfinished
from shared.metrics import Counts, Metric, count_of, most_frequent_error, total_of
from shared.subscriptions.subscription import SubscriptionKey

RECENT = timedelta(minutes=15)  # in which events were given up "of late"
SEEN_WITHIN = timedelta(minutes=10)  # held events are looked at each five minutes
LATELY = timedelta(minutes=2)
MOST_READ = 50  # subscriptions whose minutes are read: those with the most at stake
MOST_FAILURES_READ = 20  # … and whose latest failure is
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_JUDGED = 2  # the latest minutes with attempts tell whether an endpoint fails
_GIVEN_UP = (Metric.DEAD_LETTERED, Metric.DROPPED)


class GivenUp(NamedTuple):
    """Events that were given up within `RECENT`: how many, by reason, and the first minute."""

    reasons: Mapping[str, int]
    since: datetime

    @property
    def events(self) -> int:
        return sum(self.reasons.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What has happened to a subscription within the last hour; times are of minutes."""

    waiting: int = 0  # events
    awaiting_blob: int = 0  # events that are given up, until their blob is written
    blobs_due: timedelta = timedelta()  # from their last attempt
    # Age of the oldest event attempted or requeued within `SEEN_WITHIN`.
    oldest_seen: timedelta | None = None
    delivered_lately: int = 0  # events of the current minute and the two before
    seconds: float | None = None  # the mean time of a request
    attempts: int = 0
    failing_since: datetime | None = None  # most attempts have failed since
    failed_at: datetime | None = None
    error: str = ""  # the most frequent outcome of failures
    dead_lettered: GivenUp | None = None
    dropped: GivenUp | None = None
    # The latest failed attempt as `failure_documents` has it, if it was read.
    failure: Mapping[str, Any] | None = field(default=None, compare=False)


NOTHING = Activity()
_NONE = Unfinished(0)
Activities = Mapping[SubscriptionKey, Activity]  # by topic and subscription in lower case


def read_activities(
    store: Store, now: datetime, blobs_due: timedelta
) -> dict[SubscriptionKey, Activity]:
    """
    Read the activity of each subscription with events that wait, have failed or were given up.

    It takes two queries and a row; up to two queries for each of `MOST_READ` subscriptions, and for
    each of `MOST_FAILURES_READ` one a day more. Of others only what is unfinished is known.
    Dead letters are written *blobs_due* after an event's last attempt.
    """
    unfinished, counts = read_unfinished(store), store.counts
    failed = {
        key: events
        for key, found in counts.hours(now - _HOUR).items()
        if key.subscription and (events := count_of(found, Metric.ATTEMPT_FAIL, *_GIVEN_UP))
    }
    at_stake = Counter({key: sum(each) for key, each in unfinished.items()}) + Counter(failed)
    found = {key: _of_unfinished(unfinished.get(key, _NONE), blobs_due) for key in at_stake}
    for key, _ in at_stake.most_common(MOST_READ):
        minutes = counts.minutes(*key, now - _HOUR, now + _MINUTE)
        found[key] = activity_of(found[key], minutes, now)
    troubled = (key for key, _ in at_stake.most_common(MOST_READ) if _has_failures(found[key]))
    for _, key in zip(range(MOST_FAILURES_READ), troubled, strict=False):
        found[key] = _with_failure(key, found[key], store.attempts, now)
    return found


def without_answers(found: Activities) -> Activities:
    """Return activities without what endpoints answered, which readers don't see."""
    return {
        key: replace(each, failure={**each.failure, "answer": None}) if each.failure else each
        for key, each in found.items()
    }


def _of_unfinished(found: Unfinished, blobs_due: timedelta) -> Activity:
    return Activity(**found._asdict(), blobs_due=blobs_due)


def activity_of(
    unfinished: Activity, minutes: Iterable[tuple[datetime, Counts]], now: datetime
) -> Activity:
    """Judge the counts of the last hour's *minutes*, of what is *unfinished*."""
    rows: dict[datetime, list[Counts]] = {}
    for at, counts in minutes:
        rows.setdefault(at, []).append(counts)
    by_minute = {at: total_of(each) for at, each in sorted(rows.items())}
    whole = total_of(by_minute.values())
    tried = [(at, *_attempts(each)) for at, each in by_minute.items() if sum(_attempts(each))]
    ages = [
        sum_.most
        for at, each in by_minute.items()
        if at > now - SEEN_WITHIN
        for series, sum_ in each.items()
        if series.metric is Metric.EVENT_AGE
    ]
    times = [sum_ for series, sum_ in whole.items() if series.metric is Metric.PROCESSING_DURATION]
    return replace(
        unfinished,
        oldest_seen=timedelta(milliseconds=max(ages)) if ages else None,
        delivered_lately=sum(done for at, done, _ in tried if at > now - LATELY - _MINUTE),
        seconds=times[0].total / times[0].times / 1000 if times else None,
        attempts=sum(done + failed for _, done, failed in tried),
        failing_since=None if _is_made_good(whole, unfinished, tried) else _failing_since(tried),
        failed_at=max((at for at, _, failed in tried if failed), default=None),
        error=most_frequent_error(whole),
        dead_lettered=_given_up(by_minute, Metric.DEAD_LETTERED, now),
        dropped=_given_up(by_minute, Metric.DROPPED, now),
    )


def _failing_since(tried: Sequence[tuple[datetime, int, int]]) -> datetime | None:
    """
    Return since when a subscription is failing, if it is.

    *tried* has each minute of the last hour that had attempts, with how many events were delivered
    and how many attempts failed. It is failing if more failed than were delivered in the last
    `_JUDGED` of these minutes together: since the first failure after the last minute in which more
    were delivered. Of one without attempts in this hour, `_with_failure` tells.
    """
    judged = tried[-_JUDGED:]
    if sum(failed - done for _, done, failed in judged) <= 0:
        return None
    bad = [*takewhile(lambda each: each[2] >= each[1], reversed(tried))] or judged
    return min(at for at, _, failed in bad if failed)


def _is_made_good(
    whole: Counts, unfinished: Activity, tried: Sequence[tuple[datetime, int, int]]
) -> bool:
    """
    Tell whether all that failed in the last minutes with attempts was delivered since.

    What is *unfinished* alone would not do: it can be too low after a replay or the kill of a
    process.
    """
    matched, delivered = (
        count_of(whole, each) for each in (Metric.MATCHED, Metric.DELIVERY_SUCCESS)
    )
    is_lost = unfinished.awaiting_blob or count_of(whole, *_GIVEN_UP)
    is_through = not unfinished.waiting and 0 < matched <= delivered and not is_lost
    return is_through and any(done for _, done, _ in tried[-_JUDGED:])


def _attempts(counts: Counts) -> tuple[int, int]:
    """Return how many events were delivered, and how many attempts failed."""
    return count_of(counts, Metric.DELIVERY_SUCCESS), count_of(counts, Metric.ATTEMPT_FAIL)


def _given_up(
    by_minute: Mapping[datetime, Counts], metric: Metric, now: datetime
) -> GivenUp | None:
    reasons: Counter[str] = Counter()
    since = None
    for at, counts in by_minute.items():
        for series, sum_ in counts.items() if at > now - RECENT else ():
            if series.metric is metric:
                since = since or at
                reasons[series.dimensions[0][1]] += round(sum_.total)
    return GivenUp(reasons, since) if since else None


def _has_failures(found: Activity) -> bool:
    return bool(found.failed_at or (found.waiting and not found.attempts))


def _with_failure(
    key: SubscriptionKey, found: Activity, attempts: AttemptReader, now: datetime
) -> Activity:
    """
    Add the latest failed attempt.

    An attempt is counted when it ends, a timeout after it began. Where none was counted for an
    hour, and events wait, the next attempt is far away: it is failing since its latest failure.
    """
    since = found.failed_at - _MINUTE if found.failed_at else now - _DAY
    latest = latest_failure(key, attempts, now, since)
    if latest is None:
        return found
    failing_since = found.failing_since if found.attempts else datetime.fromisoformat(latest["at"])
    return replace(found, failure=latest, failing_since=failing_since)


def latest_failure(
    key: SubscriptionKey, attempts: AttemptReader, now: datetime, since: datetime
) -> Mapping[str, Any] | None:
    """
    Return the latest failed attempt after *since*, as `failure_documents` has it.

    Events are those that were published on the day before *now* or later.
    """
    days = attempts.read(*key, now - _DAY, AttemptChoice(since=since))
    latest = failure_documents((each for day in days for each in day), 1)
    return latest[0] if latest else None
