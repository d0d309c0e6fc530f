"""What becomes of one delivery whose attempts all have the same outcome."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.delivery.outcome import DeliveryOutcome, classify
from shared.delivery.policy import (
    DeliveryTerms,
    End,
    EndReason,
    RetryAt,
    before_attempt,
    decide,
)
from shared.delivery.profiles import PROFILES
from tests.builders import a_delivery
from tests.fakes import START, answered

LATEST = PROFILES["latest"]


def story(
    outcome: DeliveryOutcome, rules: DeliveryTerms, takes: timedelta = timedelta()
) -> tuple[str, datetime, EndReason]:
    """Fail again and again; return when each attempt began, and when and why it ended."""
    delivery, now = a_delivery(), START
    begun: list[str] = []
    while True:
        verdict = before_attempt(delivery, rules, now)
        if isinstance(verdict, End):
            return " ".join(begun), now, verdict.reason
        begun.append(str(now - START))
        delivery = delivery.tried(outcome, now)
        now += takes
        decision = decide(delivery, outcome, rules, now, 0.0)
        if isinstance(decision, End):
            return " ".join(begun), now, decision.reason
        assert isinstance(decision, RetryAt)
        now = decision.due


def outcome_of(status: int) -> DeliveryOutcome:
    return classify(answered(status), LATEST.success_codes)
