"""Decides what happens to a delivery that is held."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from shared.delivery.delivery import Delivery, LastAttempt
from shared.delivery.health.endpoint_health import Held
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.policy import DeliveryTerms, End, EndReason, before_attempt

_CLIENT_ERRORS = frozenset({Outcome.NOT_FOUND, Outcome.UNAUTHORIZED, Outcome.FORBIDDEN})
_PROBATION = DeliveryOutcome(outcome=Outcome.PROBATION, status=None, seconds=0.0)
_UNTRIED = LastAttempt(Outcome.PROBATION, None, datetime(1970, 1, 1, tzinfo=UTC))  # equal for all


def hold_back(
    delivery: Delivery, held: Held, terms: DeliveryTerms, now: datetime
) -> tuple[Delivery, End | None]:
    """
    Return the delivery as it waits for the end of the hold, or as it has ended, with the end.

    Being held is neither an attempt nor an end, except by two switches of the deployment, for
    probation alone. With *probation_ends_events* a client error's probation ends deliveries,
    tried before or not; with *probation_counts_attempt* a held delivery counts an attempt, once
    however often it is held. What was never tried has ``Probation`` as its last outcome.
    Source: "Delivery and retry" (2023-03-01), probation; the reason from contract §3.6.
    """
    if held.is_pause:
        return delivery, None
    last = delivery.last or _UNTRIED
    if held.probation and terms.probation_ends_events and held.probation in _CLIENT_ERRORS:
        last = last._replace(outcome=Outcome.PROBATION, status=None)
        return replace(delivery, last=last), End(EndReason.PROBATION, held.why)
    is_counted = delivery.attempts > 0 and last.outcome is Outcome.PROBATION
    if held.probation is None or not terms.probation_counts_attempt or is_counted:
        return replace(delivery, last=last), None
    counted = delivery.tried(_PROBATION, now)
    verdict = before_attempt(counted, terms, now)
    return counted, verdict if isinstance(verdict, End) else None
