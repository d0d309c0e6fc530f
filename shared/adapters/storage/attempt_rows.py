"""Converts attempts to table rows and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from shared.adapters.storage.day_tables import key_of
from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.outcome import DeliveryOutcome, EndpointAnswer, Outcome
from shared.delivery.policy import EndReason, EndState

TABLE = "attempts"  # and the day of publishing

_HOUR = "%Y%m%d%H"


def partition_of(topic: str, subscription: str, published_at: datetime) -> str:
    """Return the partition of a subscription and an hour; they sort by time."""
    return f"{key_of(topic, subscription)}{published_at.astimezone(UTC):{_HOUR}}"


def partitions_since(topic: str, subscription: str, since: datetime) -> tuple[str, str]:
    """Return the range of the partitions from *since* on: the first one, and their upper bound."""
    return partition_of(topic, subscription, since), f"{key_of(topic, subscription)}:"


def entity_of(record: AttemptRecord) -> dict[str, Any]:
    """
    Write a record as a row; what is not known is left out.

    The row's key sorts by attempt within an event; the end that follows the last attempt comes
    after it. An attempt that is repeated, since its message came twice, takes the first one's row.
    """
    record = record.clipped
    outcome = record.outcome
    row: dict[str, Any] = {
        "PartitionKey": partition_of(record.topic, record.subscription, record.published_at),
        "RowKey": f"{record.system_id}|{record.number:04}{'' if outcome else '|end'}",
        "Topic": record.topic,
        "Subscription": record.subscription,
        "SystemId": record.system_id,
        "EventId": record.event_id,
        "Event": _event(record),
        "TraceId": record.trace_id,
        "ReplayOf": record.replay_of,
        "PublishedAt": record.published_at,
        "Number": record.number,
        "At": record.at,
        "NextAt": record.next_at,
        "State": _text(record.state),
        "Reason": _text(record.reason),
        "BlobDueAt": record.blob_due_at,
        "Why": _text(record.why),
    }
    if outcome:
        row |= {
            "Outcome": _text(outcome.outcome),
            "Status": outcome.status,
            "Seconds": float(outcome.seconds),
            "Detail": _text(outcome.detail),
            **_answer(outcome.answer),
        }
    return {name: value for name, value in row.items() if value is not None}


def record_of(row: Mapping[str, Any]) -> AttemptRecord:
    """Read a row that ``entity_of`` wrote."""
    outcome = None
    if "Outcome" in row:
        outcome = DeliveryOutcome(
            outcome=Outcome(row["Outcome"]),
            status=row.get("Status"),
            seconds=row["Seconds"],
            detail=row.get("Detail", ""),
            answer=_answer_of(row),
        )
    return AttemptRecord(
        topic=row["Topic"],
        subscription=row["Subscription"],
        system_id=row["SystemId"],
        event_id=row.get("EventId"),
        published_at=row["PublishedAt"],
        number=row["Number"],
        at=row["At"],
        outcome=outcome,
        next_at=row.get("NextAt"),
        state=EndState(row["State"]) if "State" in row else None,
        reason=EndReason(row["Reason"]) if "Reason" in row else None,
        blob_due_at=row.get("BlobDueAt"),
        why=row.get("Why", ""),
        trace_id=row.get("TraceId"),
        replay_of=row.get("ReplayOf"),
        **_event_of(row),
    )


def _text(text: str | None) -> str | None:
    return str(text) if text else None


def _event(record: AttemptRecord) -> str | None:
    """Return what is known of the event as JSON's escapes, whatever characters it has."""
    known = (record.event_type, record.subject, record.event)
    return json.dumps(known) if any(known) else None


def _event_of(row: Mapping[str, Any]) -> dict[str, str | None]:
    names = ("event_type", "subject", "event")
    return dict(zip(names, json.loads(row.get("Event", "[null, null, null]")), strict=True))


def _answer(answer: EndpointAnswer | None) -> dict[str, Any]:
    if answer is None:
        return {}
    if answer.body is None:
        return {"AnswerOf": answer.of}
    # As JSON's escapes, whatever characters the endpoint has sent.
    said = json.dumps([dict(answer.headers), answer.body, answer.is_truncated])
    return {"AnswerOf": answer.of, "Answer": said}


def _answer_of(row: Mapping[str, Any]) -> EndpointAnswer | None:
    if "AnswerOf" not in row:
        return None
    headers, body, is_truncated = (
        json.loads(row["Answer"]) if "Answer" in row else ({}, None, False)
    )
    return EndpointAnswer(row["AnswerOf"], headers, body, is_truncated)
