"""What happens to a delivery next, and why: before an attempt, and after it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from shared.delivery.delivery import Delivery
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.profiles import DeliveryProfile


class EndReason(StrEnum):
    """
    Why a delivery ended without success: ``deadLetterReason``, or the reason of a drop.

    Source: contract §4.3; the last ones are ours, and only ever reasons of a drop.
    """

    MAX_ATTEMPTS = "MaxDeliveryAttemptsExceeded"
    TIME_TO_LIVE = "TimeToLiveExceeded"
    BAD_REQUEST = "UndeliverableDueToHttpBadRequest"
    UNAUTHORIZED = "UndeliverableDueToHttpUnauthorized"
    FORBIDDEN = "UndeliverableDueToHttpForbidden"
    PAYLOAD_TOO_LARGE = "UndeliverableDueToHttpPayloadTooLarge"
    SUBSCRIPTION_DELETED = "SubscriptionDeleted"
    PAYLOAD_MISSING = "PayloadMissing"
    CONTAINER_NOT_FOUND = "DeadLetterContainerNotFound"
    DESTINATION_UNAVAILABLE = "DeadLetterDestinationUnavailable"


_NEVER_RETRIED = {
    Outcome.BAD_REQUEST: EndReason.BAD_REQUEST,
    Outcome.UNAUTHORIZED: EndReason.UNAUTHORIZED,
    Outcome.FORBIDDEN: EndReason.FORBIDDEN,
    Outcome.PAYLOAD_TOO_LARGE: EndReason.PAYLOAD_TOO_LARGE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTerms:
    """The rules for one subscription: the profile and the retry policy, both scaled in time."""

    profile: DeliveryProfile
    max_attempts: int
    time_to_live: timedelta


@dataclass(frozen=True, slots=True)
class Go:
    """Push it now."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint has it."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Push it again at *due*; *why* names the rule that set this time."""

    due: datetime
    why: str


@dataclass(frozen=True, slots=True)
class End:
    """
    Give it up: dead-letter it where a destination is configured, else drop it.

    *is_final_answer* means that the endpoint itself refused the event for good.
    """

    reason: EndReason
    why: str
    is_final_answer: bool = False


Decision = Delivered | RetryAt | End


def before_attempt(delivery: Delivery, terms: DeliveryTerms, now: datetime) -> Go | End:
    """
    Say whether a delivery that is due is pushed.

    Time to live is looked at only here, when the event is due: it runs from publish, and an event
    that is exactly as old counts as expired. Source: "Delivery and retry", Dead-letter events.
    """
    if now - delivery.origin.published_at >= terms.time_to_live:
        return End(EndReason.TIME_TO_LIVE, f"older than {_text(terms.time_to_live)}")
    if delivery.attempts >= terms.max_attempts:  # The policy was tightened while it waited.
        return _exhausted(terms)
    return Go()


def decide(
    delivery: Delivery,
    outcome: DeliveryOutcome,
    terms: DeliveryTerms,
    now: datetime,
    jitter: float,
) -> Decision:
    """
    Say what follows attempt number *delivery.attempts*, which is already counted.

    *now* is when the attempt failed: waits run from there. *jitter* is in [0, 1).
    Source: "Delivery and retry", Retry schedule; limits as contract §3.5.
    """
    if outcome.outcome is Outcome.DELIVERED:
        return Delivered()
    if outcome.status in terms.profile.never_retried:
        why = f"{outcome.status} is never retried"
        return End(_NEVER_RETRIED[outcome.outcome], why, is_final_answer=True)
    if delivery.attempts >= terms.max_attempts:
        return _exhausted(terms)
    return retry(delivery, outcome, terms, now, jitter)


def retry(
    delivery: Delivery,
    outcome: DeliveryOutcome,
    terms: DeliveryTerms,
    now: datetime,
    jitter: float,
) -> RetryAt:
    """Say when attempt *delivery.attempts* + 1 is due: the longest wait that any rule asks for."""
    wait, why = max(_waits(delivery.attempts, outcome, terms.profile), key=lambda each: each[0])
    spread = min(wait * terms.profile.jitter_share, terms.profile.jitter_limit)
    return RetryAt(now + max(wait + spread * jitter, timedelta(seconds=1)), why)


def _waits(
    attempts: int, outcome: DeliveryOutcome, profile: DeliveryProfile
) -> list[tuple[timedelta, str]]:
    if attempts <= len(profile.schedule):
        step = profile.schedule[attempts - 1]
        waits = [(step, f"schedule step {attempts}: {_text(step)}")]
    else:
        waits = [(profile.tail, f"schedule: every {_text(profile.tail)}")]
    if outcome.status is not None:
        minimum = profile.minimum_delay.get(outcome.status, profile.other_minimum_delay)
        waits.append((minimum, f"minimum for {outcome.status}: {_text(minimum)}"))
    return waits


def _exhausted(terms: DeliveryTerms) -> End:
    return End(EndReason.MAX_ATTEMPTS, f"all {terms.max_attempts} attempts made")


def _text(wait: timedelta) -> str:
    """Write a wait as people say it: 30 s, 5 min, 12 h."""
    seconds = wait.total_seconds()
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
