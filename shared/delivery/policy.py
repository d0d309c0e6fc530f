"""Decides what happens to a delivery before and after each attempt, and names the rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from shared.clock import in_words
from shared.delivery.delivery import Delivery
from shared.delivery.delivery_profile import DeliveryProfile, EndpointRules
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.subscriptions.destination import EndpointType
from shared.subscriptions.subscription import (
    NO_BATCHING,
    Batching,
    DeadLetterDestination,
    DeliveryHeader,
)

_MAY_ASK_TO_WAIT = frozenset({429, 503})  # statuses whose Retry-After may count
MAX_TIMES = 2  # the wait otherwise chosen: the most that Retry-After makes of it
# RFC 9110, 5.6.7: the current form, and the two obsolete ones that must be understood.
_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")
_LONGEST = timedelta(days=365)  # a limit that keeps larger numbers from overflowing
_SECOND = timedelta(seconds=1)


class EndState(StrEnum):
    """How a delivery ended."""

    DELIVERED = "delivered"
    DEAD_LETTERED = "deadLettered"
    DROPPED = "dropped"
    RECORDED = "recorded"  # with the message that had it, in the container ``poison``


class EndReason(StrEnum):
    """
    Why a delivery ended without success: ``deadLetterReason``, or the reason of a drop.

    Source: contract §4.3; the last ones are ours, and only ever reasons of a drop or record.
    """

    MAX_ATTEMPTS = "MaxDeliveryAttemptsExceeded"
    TIME_TO_LIVE = "TimeToLiveExceeded"
    BAD_REQUEST = "UndeliverableDueToHttpBadRequest"
    UNAUTHORIZED = "UndeliverableDueToHttpUnauthorized"
    FORBIDDEN = "UndeliverableDueToHttpForbidden"
    NOT_FOUND = "UndeliverableDueToHttpNotFound"
    PAYLOAD_TOO_LARGE = "UndeliverableDueToHttpPayloadTooLarge"
    CLIENT_ERROR = "UndeliverableDueToClientError"
    PROBATION = "UndeliverableDueToProbationCausedByClientError"
    SUBSCRIPTION_DELETED = "SubscriptionDeleted"
    SUBSCRIPTION_EXPIRED = "SubscriptionExpired"
    PAYLOAD_MISSING = "PayloadMissing"
    CONTAINER_NOT_FOUND = "DeadLetterContainerNotFound"
    DESTINATION_UNAVAILABLE = "DeadLetterDestinationUnavailable"
    POISON = "Poison"  # of a record


_FINAL = {
    Outcome.BAD_REQUEST: EndReason.BAD_REQUEST,
    Outcome.UNAUTHORIZED: EndReason.UNAUTHORIZED,
    Outcome.FORBIDDEN: EndReason.FORBIDDEN,
    Outcome.NOT_FOUND: EndReason.NOT_FOUND,
    Outcome.PAYLOAD_TOO_LARGE: EndReason.PAYLOAD_TOO_LARGE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTerms:
    """The rules and limits of one subscription: its profile, and its settings within that."""

    profile: DeliveryProfile
    max_attempts: int | None  # ``None``: unlimited
    # As documented, like all times; real time is `time_scale` times shorter.
    time_to_live: timedelta
    dead_letter: DeadLetterDestination | None = None  # ``None``: events that end are dropped
    batching: Batching = NO_BATCHING
    headers: tuple[DeliveryHeader, ...] = ()  # the custom ones
    endpoint: EndpointType = EndpointType.WEBHOOK
    time_scale: float = 1.0
    honor_retry_after: bool = False
    probation_counts_attempt: bool = False
    probation_ends_events: bool = False

    @property
    def rules(self) -> EndpointRules:
        return self.profile.endpoints[self.endpoint]

    def allow_another_after(self, attempts: int) -> bool:
        return self.max_attempts is None or attempts < self.max_attempts

    def age(self, delivery: Delivery, now: datetime) -> timedelta:
        """Return the documented time since publish; none if another clock was ahead."""
        return max(now - delivery.origin.published_at, timedelta()) * self.time_scale

    def scaled(self, documented: timedelta) -> timedelta:
        """Return how long a documented time takes here."""
        return documented / self.time_scale

    def end_state(self, end: Delivered | End) -> EndState:
        """Return how a delivery ends; of one whose event is gone, nothing can be kept."""
        if isinstance(end, Delivered):
            return EndState.DELIVERED
        can_be_kept = self.dead_letter and end.reason is not EndReason.PAYLOAD_MISSING
        return EndState.DEAD_LETTERED if can_be_kept else EndState.DROPPED

    def blob_due(self, delivery: Delivery, now: datetime) -> datetime:
        """Return when the dead letter of a delivery that ends *now* may be written."""
        if delivery.last is None or not delivery.attempts:
            return now
        # Another clock may have been ahead.
        return min(delivery.last.at, now) + self.scaled(self.profile.dead_letter_delay)


def default_terms(profile: DeliveryProfile) -> DeliveryTerms:
    """Return the terms of a subscription that chooses nothing."""
    attempts = profile.limits.attempts
    return DeliveryTerms(
        profile=profile,
        max_attempts=attempts[0] if attempts else None,
        time_to_live=profile.limits.time_to_live[0],
    )


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint accepted it."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Push it again."""

    due: datetime
    why: str  # the rule that set this time


@dataclass(frozen=True, slots=True)
class End:
    """Give it up: dead-letter it where a destination is configured, else drop it."""

    reason: EndReason
    why: str


Decision = Delivered | RetryAt | End


def before_attempt(delivery: Delivery, terms: DeliveryTerms, now: datetime) -> End | None:
    """
    Return the end of a delivery that is due; ``None``: it is pushed now.

    Time to live is checked only here, when the event is due. It runs from publish; an event that is
    exactly as old counts as expired. Source: "Delivery and retry", Dead-letter events.
    """
    if terms.age(delivery, now) >= terms.time_to_live:
        return End(EndReason.TIME_TO_LIVE, f"older than {in_words(terms.time_to_live)}")
    if not terms.allow_another_after(delivery.attempts):
        # The policy was tightened while it waited.
        return _exhausted(terms)
    return None


def decide(
    delivery: Delivery,
    outcome: DeliveryOutcome,
    terms: DeliveryTerms,
    now: datetime,
    jitter: float,
) -> Decision:
    """
    Decide what follows attempt number *delivery.attempts*, which is already counted.

    *now* is when the attempt failed: waits run from there. *jitter* is in [0, 1).
    Source: "Delivery and retry", Retry schedule; limits as contract §3.5.
    """
    if outcome.outcome is Outcome.DELIVERED:
        return Delivered()
    if _is_final(outcome, terms):
        reason = _FINAL.get(outcome.outcome, EndReason.CLIENT_ERROR)
        why = f"{outcome.status or outcome.outcome} is never retried"
        return End(reason, why)
    if not terms.allow_another_after(delivery.attempts):
        return _exhausted(terms)
    return retry(delivery, outcome, terms, now, jitter)


def retry(
    delivery: Delivery,
    outcome: DeliveryOutcome,
    terms: DeliveryTerms,
    now: datetime,
    jitter: float,
) -> RetryAt:
    """Return when attempt *delivery.attempts* + 1 is due: the latest time that any rule gives."""
    wait, why = max(_waits(delivery, outcome, terms, now), key=lambda each: each[0])
    schedule = terms.profile.schedule
    spread = min(wait * schedule.jitter_share, schedule.jitter_limit)
    chosen = max(terms.scaled(wait + spread * jitter), timedelta(seconds=1))
    return _by_retry_after(outcome, terms, now, chosen) or RetryAt(now + chosen, why)


def retried_together(decisions: list[Decision]) -> list[Decision]:
    """Give all retries of one request the same time: the latest."""
    latest = max((each.due for each in decisions if isinstance(each, RetryAt)), default=None)
    if latest is None:
        return decisions
    return [replace(each, due=latest) if isinstance(each, RetryAt) else each for each in decisions]


def _by_retry_after(
    outcome: DeliveryOutcome, terms: DeliveryTerms, now: datetime, chosen: timedelta
) -> RetryAt | None:
    """
    Return the time of the endpoint's Retry-After, if it is honored and the longer wait.

    It is real time, like *chosen*. Source: RFC 9110, 10.2.3; the limit is ours: an endpoint must
    not use up an event's time to live with one answer.
    """
    if not terms.honor_retry_after or outcome.status not in _MAY_ASK_TO_WAIT:
        return None
    asked = asked_wait(outcome.retry_after, now)
    if asked is None or asked <= chosen:
        return None
    why = f"Retry-After of the endpoint: {in_words(asked)}"
    if asked > chosen * MAX_TIMES:
        asked, why = chosen * MAX_TIMES, f"{why}, limited to twice the wait"
    return RetryAt(now + asked, why)


def _is_final(outcome: DeliveryOutcome, terms: DeliveryTerms) -> bool:
    if terms.profile.final_only_with_dead_letter and not terms.dead_letter:
        return False
    if outcome.status is None:
        return outcome.failure in terms.rules.final_failures
    return outcome.status in terms.rules.never_retried


def _waits(
    delivery: Delivery, outcome: DeliveryOutcome, terms: DeliveryTerms, now: datetime
) -> list[tuple[timedelta, str]]:
    """Return the wait that each rule gives, with its name; of equal waits the first counts."""
    schedule, age = terms.profile.schedule, terms.age(delivery, now)
    waits = [schedule.wait_after(delivery.attempts, age, terms.time_to_live)]
    if outcome.status is not None:
        rules = terms.rules
        minimum = rules.minimum_delay.get(outcome.status, rules.other_minimum_delay)
        waits.append((minimum, f"minimum for {outcome.status}: {in_words(minimum)}"))
    if probation := terms.profile.probation.get(outcome.outcome):
        waits.append((probation, f"probation for {outcome.outcome}: {in_words(probation)}"))
    return waits


def _exhausted(terms: DeliveryTerms) -> End:
    return End(EndReason.MAX_ATTEMPTS, f"all {terms.max_attempts} attempts made")


def asked_wait(text: str | None, now: datetime) -> timedelta | None:
    """
    Return the wait that ``Retry-After`` asks for from *now*, rounded up to whole seconds.

    *text* is the header's value: seconds, or an HTTP date. ``None``: the header is absent or is
    neither. Source: RFC 9110, 10.2.3.
    """
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST.total_seconds()) * _SECOND
    for form in _DATES:
        try:
            until = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return max(-(-min(until - now, _LONGEST) // _SECOND), 0) * _SECOND
    return None
