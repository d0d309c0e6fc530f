"""
Writes dead letters, and groups them into blobs.

They are events with members about their delivery, or in a namespace beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from shared.clock import timestamp
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeadLetterNote
from shared.delivery.policy import EndReason
from shared.delivery.requests.push_request import convert, custom_headers
from shared.events.literals import dumps, loads
from shared.subscriptions.subscription import DeliverySchema

MAX_BLOB_RECORDS = 1000
MAX_BLOB_BYTES = 8 * 1024 * 1024  # a single larger record still gets a blob of its own

T = TypeVar("T")

_WRITTEN_AS = {DeliverySchema.CUSTOM_INPUT: DeliverySchema.EVENT_GRID}
_REASONS = {
    EndReason.MAX_ATTEMPTS: "Maximum delivery attempts was exceeded.",
    EndReason.TIME_TO_LIVE: "Time to live was exceeded.",  # no text is published: by analogy
}
_REFUSED = "Undeliverable due to client error"
_NOTHING_ANSWERED = "Event was not acknowledged nor rejected."


def record(delivery: Delivery, text: str, note: DeadLetterNote) -> str:
    """
    Return the JSON of one dead letter, *text* being its event as it was published.

    Source: contract §4.2. An event of a custom schema is wrapped in Event Grid's, whatever was
    delivered. The time of the last attempt is left out where there was none.
    """
    schema = _WRITTEN_AS.get(note.delivery_schema, note.delivery_schema)
    event: dict[str, Any] = {**loads(convert(text, note.input_schema, schema))}
    last = delivery.last
    added: dict[str, Any] = {
        "deadLetterReason": note.reason,
        "deliveryAttempts": delivery.attempts,
        "lastDeliveryOutcome": last.outcome if last else None,
        "lastHttpStatusCode": last.status if last else None,
        "publishTime": timestamp(delivery.origin.published_at),
        "lastDeliveryAttemptTime": timestamp(last.at) if last and delivery.attempts else None,
    }
    if note.delivery_schema is DeliverySchema.CLOUD_EVENTS:
        del added["lastHttpStatusCode"]  # documented for the Event Grid schema only
        added = {name.lower(): value for name, value in added.items()}
    # A CloudEvent that was a dead letter before may have members of that one.
    event = {name: value for name, value in event.items() if name not in added}
    return dumps(event | {name: value for name, value in added.items() if value is not None})


def namespace_reason(reason: EndReason) -> str:
    """Return a reason as a namespace's dead letter has it."""
    return _REASONS.get(reason, _REFUSED)


def namespace_record(delivery: Delivery, text: str, note: DeadLetterNote) -> str:
    """
    Return the JSON of one dead letter, *text* being its event as it was published.

    It has the custom headers of the last request, without the secret ones.

    Source: "Dead lettering for event subscriptions to namespace topics" (2023-09-29) and "Delivery
    and retry with namespace topics" (2024-05-08), which spell ``deadLetterProperties`` both ways:
    this is the later one's.
    """
    last = delivery.last
    properties: dict[str, Any] = {
        "deadletterreason": namespace_reason(note.reason),
        "deliveryattempts": delivery.attempts,
        "deliveryresult": last.outcome if last and last.status else _NOTHING_ANSWERED,
        "publishutc": timestamp(delivery.origin.published_at),
    }
    if last and delivery.attempts:
        properties["deliveryattemptutc"] = timestamp(last.at)
    letter = {"deadLetterProperties": properties, "event": {**loads(text)}}
    if headers := custom_headers(note.headers, text):
        letter["customDeliveryProperties"] = headers
    return dumps(letter)


def batches(sized: Iterable[tuple[T, int, int]]) -> Iterator[list[T]]:
    """
    Divide items, in order, into batches within the limits of a blob.

    Each item comes with its numbers of records and bytes; one that exceeds a limit goes alone.
    """
    batch: list[T] = []
    records = size = 0
    for item, its_records, its_size in sized:
        if batch and (records + its_records > MAX_BLOB_RECORDS or size + its_size > MAX_BLOB_BYTES):
            yield batch
            batch, records, size = [], 0, 0
        batch.append(item)
        records += its_records
        size += its_size
    if batch:
        yield batch


def blob_body(records: Sequence[str]) -> bytes:
    """Return the blob's JSON: an array, one record a line."""
    return ("[" + ",\n".join(records) + "]").encode("ascii")
