"""Logs attempts: what was tried, what came of it and what follows."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared import telemetry
from shared.delivery.delivery import Batch, Delivery
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.policy import End, RetryAt
from shared.delivery.requests.added_headers import distinct
from shared.delivery.requests.failed_attempt import delivery_failure
from shared.engine.delivering.in_hand import Part
from shared.events.event import event_id, event_ids
from shared.subscriptions.subscription import SubscriptionKey

_NAME, _ID = 16, 36  # characters of a name and of an id in a line for a terminal


def log_attempted(
    part: Part, tried: Batch, outcome: DeliveryOutcome, decision: RetryAt | End, now: datetime
) -> None:
    """Write the line about a failed request, however many events it had."""
    key, terms = part.key, part.terms
    retries = decision if isinstance(decision, RetryAt) else None
    ends = decision if isinstance(decision, End) else None
    telemetry.info(
        "delivery.attempted",
        _text(key, tried, outcome, decision, now),
        **_tried(key, tried),
        attempt=tried[0].attempts,
        attempt_max=terms.max_attempts,
        outcome=outcome.outcome,
        status=outcome.status,
        detail=outcome.detail or None,
        answer=(outcome.answer and outcome.answer.words) or None,
        duration_ms=round(outcome.seconds * 1000),
        decision="end" if ends else "retry",
        next_attempt_at=retries.due if retries else None,
        reason=ends.reason if ends else None,
        why=decision.why,
        profile=terms.profile.name,
        **delivery_failure(part.subscription, tried[0], outcome, now),
    )


def log_succeeded(key: SubscriptionKey, tried: Batch, outcome: DeliveryOutcome) -> None:
    """Write the line about a request that the endpoint accepted, however many events it had."""
    milliseconds = round(outcome.seconds * 1000)
    telemetry.info(
        "delivery.succeeded",
        f"{_head('delivery.succeeded', key, tried, outcome)} in {milliseconds} ms",
        **_tried(key, tried),
        attempt=tried[0].attempts,
        status=outcome.status,
        duration_ms=milliseconds,
    )


def log_ended(key: SubscriptionKey, delivery: Delivery, end: End) -> None:
    """Write the line about a delivery that is given up without another attempt."""
    telemetry.info("delivery.ended", **_named(key, delivery), reason=end.reason, why=end.why)


def _text(
    key: SubscriptionKey,
    tried: Batch,
    outcome: DeliveryOutcome,
    decision: RetryAt | End,
    now: datetime,
) -> str:
    """Write a failed attempt for a terminal: long names and reasons lose their middle."""
    next_step = "given up"
    if isinstance(decision, RetryAt):
        wait = timedelta(seconds=max(0, round((decision.due - now).total_seconds())))
        next_step = f"next in {wait}"
    head = f"{_head('delivery.attempted', key, tried, outcome)}; {next_step}"
    detail = f"; {outcome.detail}" if outcome.detail else ""
    reason = telemetry.shortened(f"{decision.why}{detail}", telemetry.TEXT_WIDTH - len(head) - 3)
    return f"{head} ({reason})"


def _head(event: str, key: SubscriptionKey, tried: Batch, outcome: DeliveryOutcome) -> str:
    """
    Return what was tried and the answer.

    An id is never cut: an event whose publisher gave it a long one is named by its system id.
    """
    delivery = tried[0]
    known = event_id(delivery.event) or ""
    what = known if 0 < len(known) <= _ID and known.isprintable() else delivery.system_id(key)
    if len(tried) > 1:
        what = f"{len(tried)} events"
    name = "/".join(telemetry.shortened(each, _NAME) for each in key)
    answer = f"{outcome.status or '-'} {outcome.outcome}"
    return f"{event} {name} {what}: attempt {delivery.attempts}, {answer}"


def _tried(key: SubscriptionKey, batch: Batch) -> dict[str, telemetry.Field]:
    """Return what names the deliveries of a request in the log: not all of very many."""
    if len(batch) == 1:
        return _named(key, batch[0])
    return {
        **key._asdict(),
        "count": len(batch),
        "event_ids": event_ids([each.event for each in batch]),
        "trace_ids": distinct(each.trace_id for each in batch),
    }


def _named(key: SubscriptionKey, delivery: Delivery) -> dict[str, telemetry.Field]:
    return {
        **key._asdict(),
        "event_id": event_id(delivery.event),
        "system_id": delivery.system_id(key),
        "trace_id": delivery.trace_id,
    }
