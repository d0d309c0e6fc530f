"""Reads dead letters back from a blob: this app's, and those that Azure Event Grid writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from shared.errors import InvalidEvents
from shared.events import strict_json

MAX_BLOB = 16 * 1024 * 1024  # bytes that are read; twice what the app writes
TOO_LARGE = f"It has more than {MAX_BLOB // 1024 // 1024} MiB: read it with a storage client."

# Members that Event Grid adds to an event; lower-case in CloudEvents.
_REASON, _ATTEMPTS, _OUTCOME = "deadLetterReason", "deliveryAttempts", "lastDeliveryOutcome"
_STATUS, _PUBLISHED = "lastHttpStatusCode", "publishTime"
_LAST_ATTEMPT = "lastDeliveryAttemptTime"
_ADDED = (_REASON, _ATTEMPTS, _OUTCOME, _STATUS, _PUBLISHED, _LAST_ATTEMPT)
# Event Grid's pages spell the member of a namespace's record in these ways.
_WRAPPERS = frozenset({"deadletterproperties", "brokerproperties"})
_ENVELOPE_DEPTH = 2  # levels that dead-lettering puts around an event


class RecordForm(StrEnum):
    """The form of a dead letter."""

    EVENT_GRID = "EventGridSchema"  # also wraps events of custom schemas
    CLOUD_EVENTS = "CloudEventSchemaV1_0"
    NAMESPACE = "Namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """
    An event that was not delivered, and why.

    *event* is without the members that dead-lettering adds; its numbers are as in the blob
    (`literals`), and an event of a custom schema is the ``data`` of Event Grid's envelope. *reason*
    is as written: ``MaxDeliveryAttemptsExceeded``, or a namespace's sentence. What the record does
    not tell is ``None``. *headers* are the custom ones of a namespace's record.
    """

    form: RecordForm
    event: Mapping[str, Any]
    reason: str
    attempts: int | None
    last_outcome: str | None
    last_status: int | None
    published_at: datetime | None
    last_attempt_at: datetime | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRecord:
    """An element of a blob that is no dead letter, and why."""

    fault: str


Records = Sequence[DeadLetter | UnreadableRecord]


class UnreadableBlob(ValueError):
    """A blob can't be read, or is not a list of dead letters; the message says why."""


def read_blob(body: bytes) -> Records:
    """
    Return the dead letters in a blob, in its order.

    Source: contract §4.2.

    Raises:
        UnreadableBlob: it is too large, or neither a JSON array nor a single record.
    """
    if len(body) > MAX_BLOB:
        raise UnreadableBlob(TOO_LARGE)
    try:
        found = strict_json.parse(body, max_depth=strict_json.MAX_DEPTH + _ENVELOPE_DEPTH)
    except InvalidEvents as error:
        raise UnreadableBlob(error.message) from None
    if isinstance(found, dict):
        found = [found]
    if not isinstance(found, list):
        raise UnreadableBlob("It is not a JSON array.")
    return [_read(each) for each in found]


def _read(record: object) -> DeadLetter | UnreadableRecord:
    if not isinstance(record, dict):
        return UnreadableRecord(fault="it is not a JSON object")
    wrapper = next((each for each in record if each.lower() in _WRAPPERS), None)
    if wrapper and "event" in record:
        return _of_namespace(record, record[wrapper])
    form = RecordForm.CLOUD_EVENTS if "specversion" in record else RecordForm.EVENT_GRID
    names = {name: name.lower() if form is RecordForm.CLOUD_EVENTS else name for name in _ADDED}
    reason = record.get(names[_REASON])
    if not isinstance(reason, str):
        return UnreadableRecord(fault=f"it has no {names[_REASON]}")
    return DeadLetter(
        form=form,
        event={name: value for name, value in record.items() if name not in names.values()},
        reason=reason,
        attempts=_whole(record.get(names[_ATTEMPTS])),
        last_outcome=_text(record.get(names[_OUTCOME])),
        last_status=_whole(record.get(names[_STATUS])),
        published_at=_time(record.get(names[_PUBLISHED])),
        last_attempt_at=_time(record.get(names[_LAST_ATTEMPT])),
    )


def _of_namespace(record: Mapping[str, Any], properties: object) -> DeadLetter | UnreadableRecord:
    if not isinstance(properties, dict) or not isinstance(record["event"], dict):
        return UnreadableRecord(fault="its event or its properties are not JSON objects")
    reason = properties.get("deadletterreason")
    if not isinstance(reason, str):
        return UnreadableRecord(fault="it has no deadletterreason")
    headers = record.get("customDeliveryProperties")
    return DeadLetter(
        form=RecordForm.NAMESPACE,
        event=record["event"],
        reason=reason,
        attempts=_whole(properties.get("deliveryattempts")),
        last_outcome=_text(properties.get("deliveryresult")),
        last_status=None,
        published_at=_time(properties.get("publishutc")),
        last_attempt_at=_time(properties.get("deliveryattemptutc")),
        headers={name: str(value) for name, value in headers.items()}
        if isinstance(headers, dict)
        else {},
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    """Return a whole number, which may be written as a text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value[:18])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time(value: object) -> datetime | None:
    """Return a time, which is in UTC if it does not say otherwise."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        return found and found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
