"""Reads queue messages, and rejects damaged ones."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from shared.delivery.delivery import Attempt, Delivery, Origin
from shared.delivery.messages.message import (
    EPOCH,
    VERSION,
    DeadLetterNote,
    DeliveryMessage,
    Kind,
    NewerMessage,
)
from shared.delivery.messages.packing import unpack
from shared.delivery.messages.run_length import positions_of
from shared.delivery.outcome import Outcome
from shared.delivery.policy import EndReason
from shared.errors import MalformedMessage
from shared.events.data_plane import MAX_REQUEST_EVENTS
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliveryHeader,
    DeliverySchema,
    DynamicHeader,
    StaticHeader,
)

_DAMAGED = (ValueError, TypeError, KeyError, OverflowError, RecursionError, zlib.error)


def decode(text: str | bytes) -> DeliveryMessage | NewerMessage:
    """
    Read a queue message.

    Raises:
        MalformedMessage: the text is no message of this app, or is damaged.
    """
    try:
        wire = json.loads(text)
        version = _number(wire["pushgrid"], 1)
        if version > VERSION:
            return NewerMessage(version)
        is_dead_letter = Kind(wire["kind"]) is Kind.DEADLETTER
        return DeliveryMessage(
            topic=_text(wire["topic"]),
            subscription=_text(wire["subscription"]),
            generation=_text(wire["generation"]),
            deliveries=tuple(_deliveries(wire)),
            due=_moment(wire["due"]) if "due" in wire else None,
            rounds=_number(wire.get("rounds", 0)),
            batch_size=_number(wire.get("batch", 1), 1, MAX_REQUEST_EVENTS),
            dead_letter=_note(wire["note"]) if is_dead_letter else None,
        )
    except _DAMAGED as error:
        what = f"{type(error).__name__}: {error}"[:200]
        raise MalformedMessage(f"not a delivery message: {what}") from error


def due_of(text: str) -> datetime | None:
    """Return when a queue message is due; ``None`` if it has no due time or is damaged."""
    try:
        return _moment(json.loads(text)["due"])
    except _DAMAGED:
        return None


def _deliveries(wire: dict[str, Any]) -> Iterator[Delivery]:
    origins = [_origin(*each) for each in wire["origins"]]
    texts = unpack(_text(wire["packed"]))
    texts.reverse()  # the next one is last
    left = MAX_REQUEST_EVENTS
    for number, spans, attempts, *last in wire["runs"]:
        origin = origins[_number(number, 0, len(origins) - 1)]
        tried = _number(attempts)
        attempt = _attempt(*last) if last else None
        for position in positions_of(spans, left):
            left -= 1
            if not origin.payload and not texts:
                raise ValueError("fewer events than counted")
            yield Delivery(
                origin=origin,
                position=position,
                text=None if origin.payload else texts.pop(),
                attempts=tried,
                last=attempt,
            )
    if texts:
        raise ValueError("more events than counted")
    if left == MAX_REQUEST_EVENTS:
        raise ValueError("no events")


def _origin(publish_id: object, published_at: object, payload: object) -> Origin:
    return Origin(
        _text(publish_id), _moment(published_at), None if payload is None else _text(payload)
    )


def _attempt(outcome: object, status: object, at: object) -> Attempt:
    return Attempt(
        Outcome(_text(outcome)), None if status is None else _number(status), _moment(at)
    )


def _note(wire: list[Any]) -> DeadLetterNote:
    reason, keep_until, container, topic_id, input_schema, delivery_schema, headers = wire
    return DeadLetterNote(
        reason=EndReason(reason),
        keep_until=_moment(keep_until),
        destination=DeadLetterDestination(container=_text(container)),
        topic_id=_text(topic_id),
        input_schema=InputSchema(input_schema),
        delivery_schema=DeliverySchema(delivery_schema),
        headers=tuple(_header(*each) for each in headers),
    )


def _header(name: object, content: object) -> DeliveryHeader:
    """Read a header: its value, or the path to it in the event."""
    if isinstance(content, list):
        return DynamicHeader(name=_text(name), path=tuple(map(_text, content)))
    return StaticHeader(name=_text(name), value=_text(content))


def _number(value: object, least: int = 0, most: int | None = None) -> int:
    if type(value) is not int or value < least or (most is not None and value > most):
        raise ValueError("a number is out of range")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is missing")
    return value


def _moment(value: object) -> datetime:
    if type(value) is not int:
        raise TypeError("a time is missing")
    return EPOCH + timedelta(microseconds=value)
