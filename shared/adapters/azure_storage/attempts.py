"""Stores attempts, in one table a day."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any

from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.day_tables import (
    MAX_ROWS,
    DayTables,
    key_of,
    partition_of,
    rows_of,
    upsert,
)
from shared.adapters.azure_storage.errors import storage_errors
from shared.clip import clip
from shared.clock import Deadline
from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.outcome import DeliveryOutcome, EndpointAnswer, Outcome
from shared.delivery.policy import EndReason, EndState
from shared.engine.ports import ALL_ATTEMPTS, AttemptChoice
from shared.errors import StorageUnavailable

TABLE = "attempts"  # and the day of publishing
WRITE_FOR = timedelta(seconds=20)  # all rows of a call; its last transaction may take 9 s more
#: Members of a record that are columns as they are, by column.
_MEMBERS = {
    "Topic": "topic",
    "Subscription": "subscription",
    "SystemId": "system_id",
    "EventId": "event_id",
    "TraceId": "trace_id",
    "ReplayOf": "replay_of",
    "PublishedAt": "published_at",
    "Number": "number",
    "At": "at",
    "NextAt": "next_at",
    "BlobDueAt": "blob_due_at",
    "Why": "why",
}


def entity_of(record: AttemptRecord) -> dict[str, Any]:
    """
    Write a record as a row; what is not known is left out.

    The row's key sorts by attempt within an event; the end that follows the last attempt comes
    after it. An attempt that is repeated, since its message came twice, takes the first one's row.
    """
    record = record.clipped
    row: dict[str, Any] = {column: getattr(record, name) for column, name in _MEMBERS.items()}
    row |= {
        "PartitionKey": partition_of(record.topic, record.subscription, record.published_at),
        "RowKey": f"{record.system_id}|{record.number:04}{'' if record.outcome else '|end'}",
        "Event": _event(record),
        "State": record.state and str(record.state),
        "Reason": record.reason and str(record.reason),
    }
    if outcome := record.outcome:
        row |= {
            "Outcome": str(outcome.outcome),
            "Status": outcome.status,
            "Seconds": float(outcome.seconds),
            "Detail": outcome.detail,
            **_answer(outcome.answer),
        }
    return {name: value for name, value in row.items() if value not in (None, "")}


def record_of(row: Mapping[str, Any]) -> AttemptRecord:
    outcome = None
    if "Outcome" in row:
        outcome = DeliveryOutcome(
            outcome=Outcome(row["Outcome"]),
            status=row.get("Status"),
            seconds=row["Seconds"],
            detail=row.get("Detail", ""),
            answer=_answer_of(row),
        )
    known = {name: row[column] for column, name in _MEMBERS.items() if column in row}
    return AttemptRecord(
        **{"event_id": None} | known,
        outcome=outcome,
        state=EndState(row["State"]) if "State" in row else None,
        reason=EndReason(row["Reason"]) if "Reason" in row else None,
        **_event_of(row),
    )


def _event(record: AttemptRecord) -> str | None:
    """Return what is known of the event as JSON's escapes, whatever characters it has."""
    known = (record.event_type, record.subject, record.event)
    return json.dumps(known) if any(known) else None


def _event_of(row: Mapping[str, Any]) -> dict[str, Any]:
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


class StorageAttempts:
    """
    AttemptLog and AttemptReader on Azure tables. A table that is missing is made.

    *monotonic* returns seconds.
    """

    def __init__(
        self, account: StorageClients, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._account = account
        self._monotonic = monotonic
        self._days = DayTables(account, TABLE)

    def write(self, records: Sequence[AttemptRecord]) -> None:
        deadline = Deadline(WRITE_FOR, self._monotonic)
        # A transaction has a row once: of the same attempt, made twice, the last counts.
        rows = {}
        for record in records:
            row = entity_of(record)
            table = self._days.name(record.published_at.astimezone(UTC).date())
            rows[(table, row["PartitionKey"], row["RowKey"])] = row
        for (table, _), keys in groupby(sorted(rows), key=lambda key: key[:2]):
            partition = [rows[key] for key in keys]
            client = self._account.table(table)
            for start in range(0, len(partition), MAX_ROWS):
                if deadline.has_passed:
                    raise StorageUnavailable("it takes too long to write them")
                with storage_errors():
                    upsert(client, partition[start : start + MAX_ROWS])

    def delete_before(self, day: date, deadline: Deadline) -> int:
        return self._days.delete_before(day, deadline)

    def read(
        self,
        topic: str,
        subscription: str,
        since: datetime,
        chosen: AttemptChoice = ALL_ATTEMPTS,
    ) -> Iterator[Sequence[AttemptRecord]]:
        with storage_errors():
            first = self._days.name(since.astimezone(UTC).date())
            names = [name for name in self._days.names() if name >= first]
        wanted = "PartitionKey ge @first and PartitionKey lt @end"
        values: dict[str, Any] = {
            "first": partition_of(topic, subscription, since),
            "end": f"{key_of(topic, subscription)}:",
        }
        if chosen.event_id is not None:
            wanted += " and EventId eq @event"
            values["event"] = clip(chosen.event_id)
        if chosen.since is not None:
            wanted += " and At ge @attempted"
            values["attempted"] = chosen.since
        if chosen.replay_of is not None:
            wanted += " and ReplayOf eq @job"
            values["job"] = chosen.replay_of
        for name in reversed(names):
            if rows := rows_of(self._account.table(name), wanted, **values):
                yield [record_of(row) for row in rows]
