"""Predicts the attempts and the end of an event, with the rules that delivering uses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.delivery.delivery import Delivery, Origin
from shared.delivery.delivery_profile import DeliveryProfile
from shared.delivery.outcome import DeliveryOutcome, Outcome, classify
from shared.delivery.policy import (
    Decision,
    Delivered,
    DeliveryTerms,
    End,
    EndReason,
    EndState,
    RetryAt,
    before_attempt,
    decide,
)
from shared.http import Answered, Exchange, Failure, NotAnswered

_PUBLISHED = datetime(2026, 1, 1, tzinfo=UTC)
_DELIVERED = "delivered"
_STATUS = re.compile("[2-5][0-9][0-9]")  # 1xx is never a final status
_FAILURES = {
    "refused": Failure.SOCKET,
    "dns": Failure.RESOLUTION,
    "tls": Failure.TLS,
    "unsendable": Failure.UNSENDABLE,
    "no-token": Failure.UNAUTHORIZED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastAttempt:
    """One attempt, in time since publish."""

    number: int
    at: timedelta
    answer: str
    outcome: Outcome
    next_at: timedelta | None  # ``None``: it is the last
    why: str  # the rule that decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The predicted course of an event."""

    attempts: tuple[ForecastAttempt, ...]
    state: EndState
    reason: EndReason | None
    why: str
    at: timedelta  # when its end is decided
    blob_at: timedelta | None  # when its dead letter is due


def forecast(
    answers: Sequence[str], terms: DeliveryTerms, takes: timedelta = timedelta()
) -> Forecast:
    """
    Follow one event from publish to its end.

    *answers* are status codes, ``timeout``, ``refused``, ``dns``, ``tls``, ``unsendable`` (no
    request can be made) or ``no-token`` (Entra ID refuses it); the last one repeats. Each comes
    after *takes*, a timeout after the profile's time. There is no jitter, and no other event of the
    subscription.

    A success after the profile's timeout cancels what was stored after its own attempt, until that
    is due; a retry that has begun goes on (contract §3.5, late response rule).

    Raises:
        ValueError: an answer is none of these.
    """
    profile = terms.profile
    exchanges = [_exchange(answer, takes, profile) for answer in answers]
    delivery = Delivery(origin=Origin("", _PUBLISHED, None), position=0, text="")
    attempts: list[ForecastAttempt] = []
    now = _PUBLISHED
    while True:
        if end := before_attempt(delivery, terms, now):
            return _ended(attempts, delivery, end, terms, now)
        index = min(delivery.attempts, len(answers) - 1)
        outcome = classify(_in_time(exchanges[index], profile), profile.success_codes)
        delivery = delivery.tried(outcome, now)
        ended_at = now + timedelta(seconds=outcome.seconds)
        decision = decide(delivery, outcome, terms, ended_at, 0.0)
        why = _DELIVERED if isinstance(decision, Delivered) else decision.why
        late = classify(exchanges[index], profile.success_codes)
        if _cancels(late, decision, terms, now):
            outcome, decision, ended_at = late, Delivered(), now + timedelta(seconds=late.seconds)
            why = f"a late success, after {late.seconds:g} s: what was to follow is cancelled"
        retry = decision if isinstance(decision, RetryAt) else None
        attempts.append(
            ForecastAttempt(
                number=delivery.attempts,
                at=now - _PUBLISHED,
                answer=answers[index],
                outcome=outcome.outcome,
                next_at=retry.due - _PUBLISHED if retry else None,
                why=why,
            )
        )
        if retry is None:
            return _ended(attempts, delivery, decision, terms, ended_at)
        now = retry.due


def _cancels(
    late: DeliveryOutcome, decision: Decision, terms: DeliveryTerms, sent_at: datetime
) -> bool:
    """Tell whether a late success comes before what its timeout led to is due."""
    if isinstance(decision, RetryAt):
        until = decision.due
    elif isinstance(decision, End) and terms.dead_letter:
        until = sent_at + terms.profile.dead_letter_delay
    else:
        return False
    awaited = terms.profile.late_answers_for or timedelta()
    taken = timedelta(seconds=late.seconds)
    return late.outcome is Outcome.DELIVERED and taken <= awaited and sent_at + taken < until


def _ended(
    attempts: Sequence[ForecastAttempt],
    delivery: Delivery,
    decision: Decision,
    terms: DeliveryTerms,
    now: datetime,
) -> Forecast:
    state, reason, why = EndState.DELIVERED, None, _DELIVERED
    if isinstance(decision, End):
        state, reason, why = terms.end_state(decision), decision.reason, decision.why
    blob_at = None
    if state is EndState.DEAD_LETTERED:
        # The blob follows the last attempt; an end that is noticed later is written at once.
        blob_at = max(terms.blob_due(delivery, now), now) - _PUBLISHED
    return Forecast(
        attempts=tuple(attempts),
        state=state,
        reason=reason,
        why=why,
        at=now - _PUBLISHED,
        blob_at=blob_at,
    )


def _in_time(exchange: Exchange, profile: DeliveryProfile) -> Exchange:
    """Return the exchange as it is at the acknowledgement timeout."""
    limit = profile.acknowledgement_timeout.total_seconds()
    return exchange if exchange.seconds <= limit else NotAnswered(Failure.TIMED_OUT, "", limit)


def _exchange(answer: str, takes: timedelta, profile: DeliveryProfile) -> Exchange:
    if answer == "timeout":
        limit = profile.acknowledgement_timeout
        return NotAnswered(Failure.TIMED_OUT, "", limit.total_seconds())
    if failure := _FAILURES.get(answer):
        return NotAnswered(failure, "", takes.total_seconds())
    if not _STATUS.fullmatch(answer):
        others = ", ".join(("timeout", *_FAILURES))
        raise ValueError(f"'{answer}' is neither a status (200 to 599) nor one of {others}")
    return Answered(int(answer), {}, b"", takes.total_seconds())
