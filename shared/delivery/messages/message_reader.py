"""Reads queue messages, and rejects damaged ones."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
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
    ReplayStep,
)
from shared.delivery.messages.packing import (
    MAX_BLOBS,
    MAX_MESSAGE_EVENTS,
    most_events,
    unpack,
)
from shared.delivery.messages.run_length import positions_of
from shared.delivery.outcome import Outcome
from shared.delivery.policy import EndReason
from shared.errors import MalformedMessage
from shared.events.data_plane import MAX_REQUEST_EVENTS
from shared.events.topic import InputSchema
from shared.events.trace_context import TraceContext
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliveryHeader,
    DeliverySchema,
    DynamicHeader,
    StaticHeader,
)

_DAMAGED = (ValueError, TypeError, KeyError, OverflowError, RecursionError, zlib.error)


def decode(text: str | bytes) -> tuple[DeliveryMessage, ...] | NewerMessage | ReplayStep:
    """
    Read a queue message: its parts, one for each subscription. Only fan-out messages have several.

    Raises:
        MalformedMessage: the text is no message of this app, or is damaged.
    """
    try:
        wire = json.loads(text)
        version = _number(wire["pushgrid"], 1)
        if version > VERSION:
            return NewerMessage(version)
        kind = Kind(wire["kind"])
        if kind is Kind.FANOUT:
            return _parts(wire)
        if kind is Kind.REPLAY:
            return ReplayStep(job=_text(wire["job"]), number=_number(wire["number"], 1))
        return (
            DeliveryMessage(
                topic=_text(wire["topic"]),
                subscription=_text(wire["subscription"]),
                generation=_text(wire["generation"]),
                deliveries=tuple(_deliveries(wire)),
                due=_moment(wire["due"]) if "due" in wire else None,
                rounds=_number(wire.get("rounds", 0)),
                batch_size=_number(wire.get("batch", 1), 1, MAX_REQUEST_EVENTS),
                dead_letter=_note(wire["note"]) if kind is Kind.DEADLETTER else None,
                blob=_text(wire.get("blob", "")),
            ),
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


def _parts(wire: dict[str, Any]) -> tuple[DeliveryMessage, ...]:
    """Read the parts of a fan-out message: together at most 64 deliveries, or one whole batch."""
    parts = [_part(*each) for each in wire["parts"]]
    left = most_events(parts[0][0].batch_size) if len(parts) == 1 else MAX_MESSAGE_EVENTS
    runs = [[*each, 0] for each in wire["events"]]
    events = tuple(_deliveries(wire | {"runs": runs}, left))
    unused = set(range(len(events)))
    read = []
    for part, spans in parts:
        places = list(positions_of(spans, left))
        left -= len(places)
        unused.difference_update(places)
        if len(set(places)) < len(places) or max(places) >= len(events):
            raise ValueError("an event is out of range, or twice in a part")
        read.append(replace(part, deliveries=tuple(events[place] for place in places)))
    if unused:
        raise ValueError("an event is in no part")
    return tuple(read)


def _part(
    topic: object, subscription: object, generation: object, batch_size: object, spans: list[int]
) -> tuple[DeliveryMessage, list[int]]:
    part = DeliveryMessage(
        topic=_text(topic),
        subscription=_text(subscription),
        generation=_text(generation),
        batch_size=_number(batch_size, 1, MAX_REQUEST_EVENTS),
        deliveries=(),
    )
    return part, spans


def _deliveries(wire: dict[str, Any], most: int = MAX_REQUEST_EVENTS) -> Iterator[Delivery]:
    """Yield at least one delivery, and at most *most*."""
    origins = [_origin(*each) for each in wire["origins"]]
    if len({origin.payload for origin in origins if origin.payload}) > MAX_BLOBS:
        raise ValueError("too many payload blobs")
    runs: list[tuple[Origin, list[int], int, Attempt | None]] = []
    for number, spans, attempts, *last in wire["runs"]:
        origin = origins[_number(number, 0, len(origins) - 1)]
        positions = list(positions_of(spans, most))
        most -= len(positions)
        runs.append((origin, positions, _number(attempts), _attempt(*last) if last else None))
    if not runs:
        raise ValueError("no events")
    inline = sum(len(positions) for origin, positions, *_ in runs if not origin.payload)
    texts = iter(unpack(_text(wire["packed"]), inline))
    for origin, positions, tried, attempt in runs:
        for position in positions:
            yield Delivery(
                origin=origin,
                position=position,
                text=None if origin.payload else next(texts),
                attempts=tried,
                last=attempt,
            )


def _origin(
    publish_id: object,
    published_at: object,
    payload: object,
    first_line: object = 0,
    *trace: object,
) -> Origin:
    return Origin(
        _text(publish_id),
        _moment(published_at),
        None if payload is None else _text(payload),
        _number(first_line),
        TraceContext(*map(_text, trace)) if trace else None,
    )


def _attempt(outcome: object, status: object, at: object) -> Attempt:
    return Attempt(
        Outcome(_text(outcome)), None if status is None else _number(status), _moment(at)
    )


def _note(wire: list[Any]) -> DeadLetterNote:
    reason, keep_until, container, topic_id, input_schema, delivery_schema, headers, *more = wire
    (account,) = more or [""]
    return DeadLetterNote(
        reason=EndReason(reason),
        keep_until=_moment(keep_until),
        destination=DeadLetterDestination(container=_text(container), account=_text(account)),
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
