"""Reads dead letters back from a blob, of this app or Azure Event Grid, and tells their topic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from shared.deadletter.blob_summary import BlobSummary
from shared.errors import InvalidEvents
from shared.events import strict_json
from shared.events.eventgrid_schema import documented_names
from shared.events.schema_rules import MAX_EVENT_SIZE
from shared.events.topic import InputSchema, SourceTopic, Topic, TopicName

MAX_BLOB = 16 * 1024 * 1024  # bytes that are read; twice what the app writes
TOO_LARGE = f"It has more than {MAX_BLOB // 1024 // 1024} MiB: read it with a storage client."
MAX_RECORDS = 100_000  # that are read; the app writes at most 1,000
MAX_RECORD = MAX_EVENT_SIZE + 64 * 1024  # bytes with each escape as one: an event, and its delivery
_ESCAPE = 6  # characters of an escape
_LONGEST_RECORD = _ESCAPE * MAX_RECORD
_TOO_MANY = f"it has more than {MAX_RECORDS} records; the rest is not read"
_TOO_LONG = f"it has more than {MAX_RECORD} bytes, which no event has"

# Members that Event Grid adds to an event; lower-case in CloudEvents.
_REASON, _ATTEMPTS, _OUTCOME = "deadLetterReason", "deliveryAttempts", "lastDeliveryOutcome"
_STATUS, _PUBLISHED = "lastHttpStatusCode", "publishTime"
_LAST_ATTEMPT = "lastDeliveryAttemptTime"
_ADDED = (_REASON, _ATTEMPTS, _OUTCOME, _STATUS, _PUBLISHED, _LAST_ATTEMPT)
# Event Grid's pages spell the member of a namespace's record in these ways.
_WRAPPERS = frozenset({"deadletterproperties", "brokerproperties"})
_ENVELOPE_DEPTH = 1  # levels that dead-lettering puts around an event, without the array

_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*+([\[{])")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["\[\]{},]', re.DOTALL)  # no backtracking
_QUOTE, _COMMA = b'",'
_OPENINGS, _CLOSINGS = b"[{", b"]}"
_BLANKS = b" \t\r\n"


class RecordForm(StrEnum):
    """The form of a dead letter."""

    EVENT_GRID = "EventGridSchema"  # also wraps events of custom schemas
    CLOUD_EVENTS = "CloudEventSchemaV1_0"
    NAMESPACE = "Namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An event that was not delivered, and why; what the record does not tell is ``None``."""

    form: RecordForm
    # Without what dead-lettering adds; numbers as in the blob; of a custom schema, the ``data``.
    event: Mapping[str, Any]
    reason: str  # as written: ``MaxDeliveryAttemptsExceeded``, or a namespace's sentence
    attempts: int | None
    last_outcome: str | None
    last_status: int | None
    published_at: datetime | None
    last_attempt_at: datetime | None
    # The custom ones of a namespace's record.
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRecord:
    """An element of a blob that is no dead letter, and why."""

    fault: str


Record = DeadLetter | UnreadableRecord


class UnreadableBlob(ValueError):
    """A blob can't be read, or is not a list of dead letters; the message says why."""


class Element(NamedTuple):
    """The JSON of a record, which is not parsed yet."""

    text: bytes
    fault: str = ""  # why it can't be


def elements(body: bytes, first: int = 0) -> Iterator[Element]:
    """
    Return the elements of a blob from the *first* on, in order, as they are asked for.

    If the rest of the blob can't be divided, the last element has the fault.

    Raises:
        UnreadableBlob: it is too large, or neither a JSON array nor a single record.
    """
    if len(body) > MAX_BLOB:
        raise UnreadableBlob(TOO_LARGE)
    opening = _OPENING.match(body)
    if opening is None:
        raise UnreadableBlob("It is not a JSON array.")
    if opening[1] == b"{":
        return islice([Element(body)], first, None)
    return islice(_elements(body, opening.end()), first, None)


def _elements(body: bytes, start: int) -> Iterator[Element]:
    """Divide the array that begins before *start*; what is within an element is not checked."""
    found = 0
    for end, fault in _ends(body, start):
        if fault or found == MAX_RECORDS:
            yield Element(b"", fault or _TOO_MANY)
            return
        text = body[start:end]
        if found or body[end] == _COMMA or text.strip(_BLANKS):
            yield Element(text)
        found, start = found + 1, end + 1
    if body[start:].strip(_BLANKS):
        yield Element(b"", "there is more after the end of the array")


def _ends(body: bytes, start: int) -> Iterator[tuple[int, str]]:
    """
    Yield where each element ends: at a comma or, the last one, at the array's bracket.

    Where no end can be found, yield why.
    """
    depth = 1
    for token in _TOKEN.finditer(body, start):
        at = token.start()
        sign = body[at]
        if at - start > _LONGEST_RECORD:
            yield at, f"{_TOO_LONG}; the rest is not read"
        if sign in _OPENINGS:
            depth += 1
        elif sign in _CLOSINGS:
            depth -= 1
        elif sign == _QUOTE and token.end() == at + 1:
            break  # The string has no end.
        if depth == (sign == _COMMA):  # 1 at a comma, 0 at the bracket
            yield at, ""
            start = at + 1
            if not depth:
                return
    yield start, "the blob is cut off"


def read_record(element: Element) -> Record:
    """
    Return the dead letter in an element.

    Source: contract §4.2.
    """
    text = element.text
    if element.fault:
        return UnreadableRecord(fault=element.fault)
    if len(text) > _LONGEST_RECORD or len(text) - _escaped(text) > MAX_RECORD:
        return UnreadableRecord(fault=_TOO_LONG)
    try:
        return _read(strict_json.parse(text, max_depth=strict_json.MAX_DEPTH + _ENVELOPE_DEPTH))
    except InvalidEvents as error:
        return UnreadableRecord(fault=error.message)


def _escaped(text: bytes) -> int:
    """Return how many bytes the escapes of characters have beside the first one of each."""
    if len(text) <= MAX_RECORD:
        return 0
    return (_ESCAPE - 1) * text.replace(rb"\\", b"").count(rb"\u")


def _read(record: object) -> Record:
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
    event = {name: value for name, value in record.items() if name not in names.values()}
    return DeadLetter(
        form=form,
        event=documented_names(event) if form is RecordForm.EVENT_GRID else event,
        reason=reason,
        attempts=_whole(record.get(names[_ATTEMPTS])),
        last_outcome=_text(record.get(names[_OUTCOME])),
        last_status=_whole(record.get(names[_STATUS])),
        published_at=_time(record.get(names[_PUBLISHED])),
        last_attempt_at=_time(record.get(names[_LAST_ATTEMPT])),
    )


def _of_namespace(record: Mapping[str, Any], properties: object) -> Record:
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
    """Return a whole number, which may be written as text."""
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


def topic_id_of(letter: DeadLetter, summary: BlobSummary | None) -> str | None:
    """
    Return the ARM id of the topic that a blob names, or else its record; ``None``: neither does.

    A CloudEvent has an ARM id only if it was converted, but a publisher's *source* may equal one.
    """
    if summary and summary.topic_id:
        return summary.topic_id
    named = letter.event.get("topic" if letter.form is RecordForm.EVENT_GRID else "source")
    return named if isinstance(named, str) else None


def topic_named(arm_id: str) -> str:
    """Return the name on the data plane of a topic that is not one of a namespace."""
    name = arm_id.rpartition("/")[2]
    kinds = ("/microsoft.storage/storageaccounts/", "/pushgrid/deployments/")
    is_source = any(each in arm_id.casefold() for each in kinds)
    return SourceTopic(name).joined if is_source else name


def is_of(topic: Topic, letter: DeadLetter, summary: BlobSummary | None) -> bool | None:
    """
    Tell whether a dead letter in a folder of *topic* is of that topic; ``None``: nothing proves it.

    A namespace's folders have the name of the topic. CloudEvents of its own prove theirs only if
    the topic's input schema is another one: all of them were converted then.
    """
    if not (summary and summary.topic_id):
        if letter.form is RecordForm.NAMESPACE:
            return TopicName.parse(topic.name) is not None
        if (
            letter.form is RecordForm.CLOUD_EVENTS
            and topic.input_schema is InputSchema.CLOUD_EVENTS
        ):
            return None
    named = topic_id_of(letter, summary)
    return None if named is None else named.casefold() == topic.arm_id.casefold()
