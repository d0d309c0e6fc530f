"""Judges what is wrong with an event subscription: what harms most, why, and what to do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from shared.clip import first_line
from shared.clock import optional_timestamp
from shared.delivery.gate import Availability, Held, Open
from shared.delivery.outcome import MOST_WORDS, Outcome, answer_words
from shared.delivery.policy import EndReason
from shared.engine.operations.activity import NOTHING, Activity, GivenUp
from shared.settings import NAMES
from shared.subscriptions.destination import StorageQueue
from shared.subscriptions.diagnosis import Diagnosis, of_function
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    EventSubscription,
    SubscriptionKey,
)

UNSIGNED_FOR = timedelta(days=1)  # as long it is told that deliveries were signed before
AT_ONCE = timedelta(seconds=30)  # an event that is older has not been delivered at once


class Kind(StrEnum):
    """What can be wrong, the most harmful first."""

    DAMAGED = "damaged"  # its row can't be read
    FAILING = "failing"  # most attempts fail
    HELD = "held"
    PAUSED = "paused"
    EXPIRED = "expired"
    AWAITING_VALIDATION = "awaitingValidation"  # its endpoint has not consented
    SLOW = "slow"  # more waits than it takes in two minutes
    UNKNOWN_ACCOUNT = "unknownAccount"  # its dead letters can't be written
    DROPPING = "dropping"
    DEAD_LETTERING = "deadLettering"
    UNSIGNED = "unsigned"  # an update of the last day has ended its signatures


_TIMELINE = "pushgrid timeline --topic {topic} --subscription {subscription}"
_UPDATE = "pushgrid subscription update {subscription} --topic {topic}"
REMEDIES = {
    Kind.DAMAGED: "restore its row, or PUT it again",
    Kind.FAILING: _TIMELINE,
    Kind.HELD: "pushgrid subscription test {subscription} --topic {topic}",
    Kind.PAUSED: "pushgrid subscription resume {subscription} --topic {topic}",
    Kind.EXPIRED: f"{_UPDATE} --expires TIME",
    Kind.SLOW: f"{_UPDATE} --batch 100",
    Kind.UNKNOWN_ACCOUNT: f"name it in {NAMES['deadletter_accounts']}, or by "
    f"{NAMES['own_account']} if it is this server's own",
    Kind.DROPPING: f"{_UPDATE} --dead-letter-container NAME",
    Kind.DEAD_LETTERING: "pushgrid dead-letters list --topic {topic} --subscription {subscription}",
    Kind.UNSIGNED: f"{_UPDATE} --sign",
}
UNKNOWN_ACCOUNT = "no setting names '{}', the storage account of its dead letters: they wait"
_OF_ENDPOINT = {Kind.FAILING, Kind.HELD, Kind.DROPPING, Kind.DEAD_LETTERING}
_NO_QUEUE = f"404 {Outcome.NOT_FOUND}"  # the cause of a put into a queue that is missing
_TOO_LARGE = f"413 {Outcome.PAYLOAD_TOO_LARGE}"
_REDIRECTED = re.compile(r"30[12378] ")
_RAISE_LIMIT = "raise the limit of request bodies of the endpoint or its proxy"
_SMALLER = f"{_RAISE_LIMIT}, or send smaller batches: {_UPDATE} --batch-kilobytes {{kilobytes}}"
OPEN = Open()
_ORDER = {kind: number for number, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a subscription at one moment."""

    key: SubscriptionKey
    subscription: EventSubscription | None  # ``None``: its row can't be read
    availability: Availability = OPEN
    held_since: datetime | None = None
    activity: Activity = NOTHING
    pending_consent: Diagnosis | None = None  # why its endpoint, or its new one, has not consented
    accounts: Collection[str] | None = None  # of storage, that are reached; ``None``: not known

    @property
    def unknown_account(self) -> str | None:
        """The storage account of its dead letters, if no setting names it."""
        if self.accounts is None or not self.subscription:
            return None
        return unknown_account(self.subscription.dead_letter, self.accounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What is wrong with a subscription, and of the worst since when, why, and what to do."""

    facts: Facts
    kinds: tuple[Kind, ...]  # the worst first
    since: datetime | None  # ``None``: it is not known
    why: str  # with the endpoint's own words where it has said any
    remedy: str  # a command, or what to do


def trouble_of(facts: Facts, now: datetime) -> Trouble | None:
    kinds = kinds_of(facts, now)
    if not kinds:
        return None
    since, why = _explained(kinds[0], facts, now)
    remedy = remedy_of(kinds[0], facts)
    return Trouble(facts=facts, kinds=kinds, since=since, why=why, remedy=remedy)


def unknown_account(
    destination: DeadLetterDestination | None, accounts: Collection[str]
) -> str | None:
    """Return the storage account of *destination* if it is none of the *accounts*."""
    account = destination.account if destination else ""
    return account if account and account not in accounts else None


def kinds_of(facts: Facts, now: datetime) -> tuple[Kind, ...]:
    """Return all that is wrong with a subscription, the most harmful first."""
    subscription, activity = facts.subscription, facts.activity
    if subscription is None:
        return (Kind.DAMAGED,)
    is_held = not isinstance(facts.availability, Open) and not subscription.pause
    is_called = not (is_held or subscription.pause or subscription.is_expired(now))
    found = {
        Kind.FAILING: is_called and activity.failing_since,
        Kind.HELD: is_held,
        Kind.PAUSED: subscription.pause,
        Kind.EXPIRED: subscription.is_expired(now),
        Kind.AWAITING_VALIDATION: facts.pending_consent,
        Kind.SLOW: is_called and not activity.failing_since and _is_slow(activity),
        Kind.UNKNOWN_ACCOUNT: facts.unknown_account,
        Kind.DROPPING: activity.dropped,
        Kind.DEAD_LETTERING: activity.dead_lettered,
        Kind.UNSIGNED: (end := subscription.signing_end) and now < end.at + UNSIGNED_FOR,
    }
    return tuple(kind for kind in Kind if found.get(kind))


def _is_slow(activity: Activity) -> bool:
    """Tell whether more events wait than it takes in two minutes; counts alone prove no backlog."""
    is_old = (activity.oldest_seen or timedelta()) > AT_ONCE
    return is_old and activity.waiting > activity.delivered_lately


def in_order(troubles: Iterable[Trouble]) -> list[Trouble]:
    """Sort what is wrong by harm: by kind, then by how many events wait."""

    def harm(of: Trouble) -> tuple[int, int, SubscriptionKey]:
        return _ORDER[of.kinds[0]], -of.facts.activity.waiting, of.facts.key.folded

    return sorted(troubles, key=harm)


def document(trouble: Trouble) -> dict[str, Any]:
    """
    Return what is wrong with a subscription as JSON members::

        {"topic": "orders", "subscription": "crm",
         "id": "/subscriptions/…/eventSubscriptions/crm",       null: its row is damaged
         "kind": "failing", "also": ["dropping"],               values of `Kind`
         "since": "2026-02-09T11:58:00Z",                       null: not known
         "why": "400 BadRequest at 11:59:41Z: no such customer", one line, with others' words
         "waiting": 12,                                         events
         "oldestSeenSeconds": 95.0,                             null: none was seen for ten minutes
         "awaitingBlob": 3,                                     events that are given up
         "blobsDueSeconds": 300.0,                              null: there are none
         "remedy": "pushgrid timeline --topic orders --subscription crm"}
    """
    facts, (worst, *others) = trouble.facts, trouble.kinds
    return {
        **facts.key._asdict(),
        "id": facts.subscription.arm_id if facts.subscription else None,
        "kind": worst,
        "also": others,
        "since": optional_timestamp(trouble.since),
        "why": trouble.why,
        **waiting_document(facts.activity),
        "remedy": trouble.remedy,
    }


def waiting_document(activity: Activity) -> dict[str, Any]:
    """
    Return how many events wait, and the age of the oldest that a process saw of late; how many are
    given up, and within which time their blobs are due.
    """
    age = activity.oldest_seen if activity.waiting else None
    seconds = None if age is None else round(age.total_seconds(), 1)
    due = activity.blobs_due.total_seconds() if activity.awaiting_blob else None
    return {
        "waiting": activity.waiting,
        "oldestSeenSeconds": seconds,
        "awaitingBlob": activity.awaiting_blob,
        "blobsDueSeconds": due,
    }


def remedy_of(kind: Kind, facts: Facts) -> str:
    """Return what to do about a subscription: a command, or a sentence."""
    activity, known = facts.activity, facts.subscription
    if kind is Kind.AWAITING_VALIDATION and facts.pending_consent:
        return facts.pending_consent.remedy
    if kind in _OF_ENDPOINT and known and (remedy := _remedy_of_cause(facts, known)):
        return remedy
    destination = known and known.dead_letter
    if kind is Kind.DROPPING and destination:
        if activity.dropped and EndReason.CONTAINER_NOT_FOUND in activity.dropped.reasons:
            account = f" in the storage account '{destination.account}'" * bool(destination.account)
            return f"create the container '{destination.container}'{account}"
        kind = Kind.FAILING  # It has a destination already: see why they could not be written.
    return REMEDIES[kind].format(**_named(facts))


def _remedy_of_cause(facts: Facts, known: EventSubscription) -> str | None:
    """Return what to do about the cause of the latest failure, if that tells."""
    queue, batching = known.destination, known.batching
    failure, half = facts.activity.failure or {}, batching.preferred_kilobytes // 2
    cause = failure.get("cause")
    if isinstance(queue, StorageQueue):
        create = f"create the queue '{queue.name}' in the storage account '{queue.account}'"
        return create if cause == _NO_QUEUE else None
    if _REDIRECTED.match(cause or ""):
        return f"{_UPDATE.format(**_named(facts))} --endpoint URL"  # Redirects are not followed.
    if means := of_function(known.endpoint_url, failure.get("status")):
        return means
    if cause != _TOO_LARGE:
        return None
    remedy = _SMALLER if batching.max_events > 1 and half else _RAISE_LIMIT
    return remedy.format(**_named(facts), kilobytes=half)


def _named(facts: Facts) -> dict[str, str]:
    """Return the topic and subscription that lead a command to it."""
    named = facts.key._asdict()
    if facts.subscription:
        named["topic"] = facts.subscription.addressed_topic
    return named


def _explained(kind: Kind, facts: Facts, now: datetime) -> tuple[datetime | None, str]:
    """Return since when it is so, and why."""
    activity, known = facts.activity, facts.subscription
    if known is None:
        return None, "its row can't be read"
    lost = {Kind.DROPPING: activity.dropped, Kind.DEAD_LETTERING: activity.dead_lettered}.get(kind)
    if lost:
        return lost.since, _given_up_why(lost, activity)
    match kind:
        case Kind.FAILING:
            return activity.failing_since, _cause(activity)
        case Kind.SLOW:
            return now - (activity.oldest_seen or timedelta()), _slow_why(activity)
        case Kind.HELD:
            return facts.held_since, held_why(facts.availability, words_of(activity.failure))
        case _:
            return _explained_by_document(kind, known, facts)


def _explained_by_document(
    kind: Kind, known: EventSubscription, facts: Facts
) -> tuple[datetime | None, str]:
    """Return since when an operator's document makes it so, and why."""
    match kind:
        case Kind.PAUSED if known.pause:
            return known.pause.since, f"paused by {known.pause.by}"
        case Kind.UNSIGNED if end := known.signing_end:
            return end.at, f"was signed until an update by {end.by}: its secrets are gone"
        case Kind.EXPIRED:
            return known.expires_at, "its expiration time is over: it gets no more events"
        case Kind.UNKNOWN_ACCOUNT:
            return None, UNKNOWN_ACCOUNT.format(facts.unknown_account)
        case _:
            return None, facts.pending_consent.why if facts.pending_consent else ""


def _slow_why(activity: Activity) -> str:
    seconds = round(activity.seconds or 0, 1)
    took = f", at {seconds} s a request" if seconds else ""
    return f"{activity.delivered_lately} events delivered in two minutes{took}"


def held_why(found: Availability, words: str) -> str:
    """Return why an endpoint is held and until when, then its *words*; nothing if it is not."""
    if isinstance(found, Open):
        return ""
    until = "a probe is due"
    if isinstance(found, Held):
        until = f"until {found.until:%Y-%m-%d %H:%M:%SZ}"
    said = f": {words}" if words and words not in found.why else ""
    return f"{found.why}; {until}{said}"


def _given_up_why(found: GivenUp, activity: Activity) -> str:
    reasons = ", ".join(f"{events} {reason}" for reason, events in sorted(found.reasons.items()))
    cause = _cause(activity)
    return f"{reasons}; {cause}" if cause else reasons


def _cause(activity: Activity) -> str:
    """Return the cause of the latest failure, when it was, and what the endpoint said."""
    if activity.failure:
        return failure_cause(activity.failure)
    if activity.failed_at:
        return f"{activity.error} at {activity.failed_at:%H:%MZ}"
    return ""


def failure_cause(failure: Mapping[str, Any]) -> str:
    """Return the cause of a failed attempt, when it was, and what the endpoint said."""
    at = datetime.fromisoformat(failure["at"])
    words = words_of(failure)
    return f"{failure['cause']} at {at:%H:%M:%SZ}" + (f": {words}" if words else "")


def words_of(failure: Mapping[str, Any] | None) -> str:
    """Return in one line what the endpoint said to a failed attempt, or why it said nothing."""
    if failure is None:
        return ""
    answer = failure["answer"]
    said = answer_words(answer["headers"], answer["body"]) if answer else ""
    return said or first_line(failure["detail"] or "", MOST_WORDS)
