"""Records each attempt and each end once: in the log, in the attempt table, in the metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http.client import responses
from typing import Any

from shared import telemetry
from shared.clock import Clock, format_us_datetime, timestamp
from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.delivery import Batch, Delivery, replay_job
from shared.delivery.outcome import DeliveryOutcome, EndpointAnswer
from shared.delivery.policy import Decision, Delivered, End, EndState, RetryAt
from shared.engine.delivering.attempt_history import AttemptHistory
from shared.engine.delivering.in_hand import Attempted, Part, Result
from shared.engine.keeping.ends import Ends
from shared.engine.ports import Metrics
from shared.engine.ports.settling import Ended
from shared.events.event import distinct, event_id, event_ids, event_names
from shared.metrics import Metric, Sum, error_type
from shared.subscriptions.destination import base_url
from shared.subscriptions.subscription import DeliverySchema, EventSubscription, SubscriptionKey

_MILLISECOND = timedelta(milliseconds=1)
_NAME, _ID = 16, 36  # characters of a name and of an id in a line for a terminal
_SCHEMAS = {
    DeliverySchema.EVENT_GRID: "EventGridEvent",
    DeliverySchema.CLOUD_EVENTS: "CloudEventV10",
    DeliverySchema.CUSTOM_INPUT: "CustomInputEvent",
}
_FIELDS = (
    "InputEvent, EventSubscriptionId, DeliveryTime, State, Id, DeliverySchema, "
    "LastDeliveryAttemptTime, SystemId"
)


@dataclass(slots=True)
class _Seen:
    """What is counted of the requests of a part that came together."""

    ages: list[float] = field(default_factory=list)  # ms
    durations: list[float] = field(default_factory=list)  # ms
    successes: list[float] = field(default_factory=list)  # events of a request


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecorder:
    """Records what becomes of deliveries: in log lines, rows and counts."""

    history: AttemptHistory
    metrics: Metrics
    ends: Ends
    clock: Clock

    def seen(self, results: Iterable[tuple[Part, Batch, Result]], settled: Metrics) -> None:
        """
        Count the oldest age in each request that was made or requeued: no events.

        Of an attempt count each event, by *settled*, and once the time of a request that was
        answered. What came together is counted together.
        """
        now = self.clock.now()
        seen: defaultdict[Part, _Seen] = defaultdict(_Seen)
        for part, batch, result in results:
            published = min([each.origin.published_at for each in batch])
            seen[part].ages.append(max((now - published) // _MILLISECOND, 0))
            if not isinstance(result, Attempted):
                continue
            outcome = result.outcome
            if batch[0] is result.first and outcome.status is not None:
                seen[part].durations.append(round(outcome.seconds * 1000, 1))
            if result.succeeded:
                seen[part].successes.append(len(batch))
            else:
                named = {"Error": outcome.outcome, "ErrorType": error_type(outcome.status)}
                settled.count(Metric.ATTEMPT_FAIL, *part.key, by=len(batch), **named)
        for part, of in seen.items():
            self.metrics.count(Metric.EVENT_AGE, *part.key, by=Sum.of(of.ages))
            if of.durations:
                self.metrics.count(Metric.PROCESSING_DURATION, *part.key, by=Sum.of(of.durations))
            if of.successes:
                settled.count(Metric.DELIVERY_SUCCESS, *part.key, by=Sum.of(of.successes))

    def attempted(
        self, part: Part, tried: Batch, attempted: Attempted, decisions: Sequence[Decision]
    ) -> None:
        """
        Record an attempt whose events have it counted, with what follows for each.

        Successes come here only if they are kept.
        """
        outcome, first = attempted.outcome, decisions[0]
        for delivery, decision in zip(tried, decisions, strict=True):
            self._add(part, delivery, attempted.began_at, outcome, decision)
        if not isinstance(first, Delivered):
            log_failed(part, tried, outcome, first, self.clock.now())
        elif self.history.logs_successes:
            _log_succeeded(part.key, tried, outcome)

    def ended(self, part: Part, delivery: Delivery, end: End) -> None:
        """Record an end without another attempt."""
        if delivery.text is not None:  # of what is gone, the drop says all
            named = _named(part.key, [delivery])
            telemetry.info("delivery.ended", **named, reason=end.reason, why=end.why)
        self._add(part, delivery, self.clock.now(), None, end)

    def heard(self, ended: Ended) -> None:
        """Hear of an end; of a drop nothing is left: it is logged."""
        if ended.state is EndState.DEAD_LETTERED:
            self.ends.hear(ended)
            return
        key, delivery = ended.key, ended.delivery
        cause = delivery.last.cause if delivery.last else None
        named = {"system_id": delivery.system_id(key), "trace_id": delivery.trace_id}
        self.ends.log_dropped([ended], cause=cause, **named)

    def answered_late(
        self, part: Part, batch: Batch, outcome: DeliveryOutcome, *, is_cancelled: bool
    ) -> None:
        """Record a success after the timeout, and whether it could cancel what followed."""
        key, seconds = part.key, outcome.seconds
        telemetry.info(
            "delivery.answered_late",
            **key._asdict(),
            count=len(batch),
            event_ids=event_ids([each.event for each in batch]),
            status=outcome.status,
            seconds=round(seconds, 3),
            cancelled=is_cancelled,
        )
        self.metrics.count(Metric.ANSWERED_LATE, *key, by=len(batch))
        if not is_cancelled:  # It is delivered again, or is counted as dropped.
            return
        self.metrics.count(Metric.DELIVERY_SUCCESS, *key, by=len(batch))
        if self.history.keeps(None):  # and so the attempts that failed
            now, why = self.clock.now(), f"a late success, after {seconds:.0f} s"
            rows = (self._row(key, each, now, state=EndState.DELIVERED, why=why) for each in batch)
            self.history.add(replace(each, number=each.number + 1) for each in rows)

    def _add(
        self,
        part: Part,
        delivery: Delivery,
        at: datetime,
        outcome: DeliveryOutcome | None,
        decision: Decision,
    ) -> None:
        """Add the row of an attempt that began *at*, or without an *outcome* an end found then."""
        state = None if isinstance(decision, RetryAt) else part.terms.end_state(decision)
        if not self.history.keeps(state):
            return
        if isinstance(decision, Delivered):
            part.rows.append(self._row(part.key, delivery, at, outcome=outcome, state=state))
            return
        blob_due_at = None
        if state is EndState.DEAD_LETTERED:
            now = self.clock.now()
            blob_due_at = max(part.terms.blob_due(delivery, now), now)
        row = self._row(
            part.key,
            delivery,
            at,
            outcome=outcome and _once(outcome, delivery.system_id(part.key)),
            next_at=decision.due if isinstance(decision, RetryAt) else None,
            state=state,
            reason=decision.reason if isinstance(decision, End) else None,
            blob_due_at=blob_due_at,
            why=decision.why,
        )
        part.rows.append(row)

    def _row(
        self,
        key: SubscriptionKey,
        delivery: Delivery,
        at: datetime,
        outcome: DeliveryOutcome | None = None,
        **decided: Any,
    ) -> AttemptRecord:
        names = event_names(delivery.text)
        return AttemptRecord(
            topic=key.topic,
            subscription=key.subscription,
            system_id=delivery.system_id(key),
            event_id=names.id,
            event_type=names.type,
            subject=names.subject,
            event=delivery.text if self.history.keeps(EndState.DELIVERED) else None,
            trace_id=delivery.trace_id,
            replay_of=replay_job(delivery.origin.publish_id),
            published_at=delivery.origin.published_at,
            number=delivery.attempts,
            at=at,
            outcome=outcome,
            **decided,
        )


def _once(outcome: DeliveryOutcome, system_id: str) -> DeliveryOutcome:
    """Return an outcome whose answer is kept with the request's first event, once."""
    answer = outcome.answer
    if answer is None or answer.of == system_id:
        return outcome
    return replace(outcome, answer=EndpointAnswer(answer.of, {}, None))


def log_failed(
    part: Part, tried: Batch, outcome: DeliveryOutcome, decision: RetryAt | End, now: datetime
) -> None:
    """Write the line about a failed request, however many events it had."""
    next_at, next_step = None, "given up"
    if isinstance(decision, RetryAt):
        next_at = decision.due
        wait = timedelta(seconds=max(0, round((next_at - now).total_seconds())))
        next_step = f"next in {wait}"
    head = f"{_head('delivery.attempted', part.key, tried, outcome)}; {next_step}"
    why = f"{decision.why}; {outcome.detail}" if outcome.detail else decision.why
    # For a terminal long names and reasons lose their middle.
    why = telemetry.shortened(why, telemetry.TEXT_WIDTH - len(head) - 3)
    telemetry.info(
        "delivery.attempted",
        f"{head} ({why})",
        **_named(part.key, tried),
        attempt=tried[0].attempts,
        attempt_max=part.terms.max_attempts,
        outcome=outcome.outcome,
        status=outcome.status,
        detail=outcome.detail or None,
        answer=(outcome.answer and outcome.answer.words) or None,
        duration_ms=round(outcome.seconds * 1000),
        decision="end" if next_at is None else "retry",
        next_attempt_at=next_at,
        reason=decision.reason if isinstance(decision, End) else None,
        why=decision.why,
        profile=part.terms.profile.name,
        **_delivery_failure(part.subscription, tried[0], outcome, now),
    )


def _log_succeeded(key: SubscriptionKey, tried: Batch, outcome: DeliveryOutcome) -> None:
    """Write the line about a request that the endpoint accepted, however many events it had."""
    milliseconds = round(outcome.seconds * 1000)
    telemetry.info(
        "delivery.succeeded",
        f"{_head('delivery.succeeded', key, tried, outcome)} in {milliseconds} ms",
        **_named(key, tried),
        attempt=tried[0].attempts,
        status=outcome.status,
        duration_ms=milliseconds,
    )


def _head(line: str, key: SubscriptionKey, tried: Batch, outcome: DeliveryOutcome) -> str:
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
    return f"{line} {name} {what}: attempt {delivery.attempts}, {answer}"


def _named(key: SubscriptionKey, batch: Batch) -> dict[str, telemetry.Field]:
    """Return what names the deliveries of a request in the log: not all of very many."""
    if len(batch) == 1:
        (delivery,) = batch
        return {
            **key._asdict(),
            "event_id": event_id(delivery.event),
            "system_id": delivery.system_id(key),
            "trace_id": delivery.trace_id,
        }
    return {
        **key._asdict(),
        "count": len(batch),
        "event_ids": event_ids([each.event for each in batch]),
        "trace_ids": distinct(each.trace_id for each in batch),
    }


def _delivery_failure(
    subscription: EventSubscription, delivery: Delivery, outcome: DeliveryOutcome, now: datetime
) -> dict[str, str]:
    """
    Return a record of the category ``DeliveryFailures``: of a batch, about its first event.

    *delivery* has its attempt counted. Neither the endpoint's query nor what it answered is in it.

    Source: contract §7.
    """
    began_at = delivery.last.at if delivery.last else now
    schema = _SCHEMAS[subscription.delivery_schema]
    phrase = responses.get(outcome.status or 0, "")
    response = f"{outcome.status} {phrase}".rstrip() if outcome.status else "no answer"
    values = {
        "outcome": outcome.outcome,
        "latencyInMs": round(outcome.seconds * 1000),
        "id": event_id(delivery.event) or "",
        "systemId": delivery.system_id(subscription.key),
        "state": "FilteredFailingDelivery",
        "deliveryTime": format_us_datetime(began_at),
        "deliveryCount": delivery.attempts - 1,
        "probationCount": 0,
        "deliverySchema": schema,
        "eventSubscriptionDeliverySchema": schema,
        "fields": _FIELDS,
        "publishTime": format_us_datetime(delivery.origin.published_at),
        "url": base_url(subscription.endpoint_url),
        "deliveryResponse": f"{outcome.outcome}: {response}",
    }
    return {
        "time": timestamp(now),
        "resourceId": subscription.topic_id.upper(),
        "eventSubscriptionName": subscription.name.upper(),
        "category": "DeliveryFailures",
        "operationName": "Deliver",
        "message": "Message:" + ", ".join(f"{name}={value}" for name, value in values.items()),
    }
