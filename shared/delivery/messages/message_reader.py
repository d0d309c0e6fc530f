"""Reads queue messages, and rejects damaged ones."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.delivery.delivery import Delivery, LastAttempt, Origin
from shared.delivery.furthest import Bounds, StoredTime, longest_wait
from shared.delivery.messages.message import (
    EPOCH,
    VERSION,
    DeadLetterNote,
    MessagePart,
    OtherVersion,
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

_DAMAGED = (ValueError, TypeError, LookupError, OverflowError, RecursionError, zlib.error)


def decode(
    text: str | bytes, bounds: Bounds | None = None
) -> tuple[MessagePart, ...] | OtherVersion | ReplayStep:
    """
    Read a queue message: its parts, one for each subscription.

    Within *bounds* no time is further ahead than a rule could have put it. Such a due time is over:
    storage has measured the wait. A time of publication counts as now whatever it is
    (`DeliveryTerms.age`), and is corrected so that the event grows old. A dead letter keeps all its
    times.

    Raises:
        MalformedMessage: the text is no message of this app, or is damaged.
    """
    try:
        wire = json.loads(text)
        version = _number(wire["pushgrid"], 1)
        if version != VERSION:
            return OtherVersion(version)
        if "job" in wire:
            return ReplayStep(job=_text(wire["job"]), number=_number(wire["number"], 1))
        return tuple(_parts(wire, bounds))
    except _DAMAGED as error:
        what = f"{type(error).__name__}: {error}"[:200]
        raise MalformedMessage(f"not a delivery message: {what}") from error


def due_of(text: str) -> datetime | None:
    """Return when a queue message is due; ``None`` if it has no due time or is damaged."""
    try:
        return _moment(json.loads(text)["due"])
    except _DAMAGED:
        return None


def _parts(wire: dict[str, Any], bounds: Bounds | None) -> Iterator[MessagePart]:
    """Yield the parts of a message: together at most 64 deliveries, or one whole batch."""
    note = _note(wire["note"]) if "note" in wire else None
    if note and len(wire["parts"]) > 1:
        raise ValueError("dead letters of several subscriptions")
    bounds = None if note else bounds
    due = _moment(wire["due"]) if "due" in wire else None
    common: dict[str, Any] = {
        "rounds": _number(wire.get("rounds", 0)),
        "dead_letter": note,
        "blob": _text(wire.get("blob", "")),
    }
    sizes = [_number(part[3], 1, MAX_REQUEST_EVENTS) for part in wire["parts"]]
    left = most_events(sizes[0]) if len(sizes) == 1 else MAX_MESSAGE_EVENTS
    events = list(_events(wire, left, bounds))
    unused = set(range(len(events)))
    for size, part in zip(sizes, wire["parts"], strict=True):
        topic, subscription, generation, _, spans, *counters = part
        places = list(positions_of(spans, left))
        left -= len(places)
        unused.difference_update(places)
        deliveries = [events[place] for place in places]
        if counters:
            deliveries = list(_tried(deliveries, *counters))
        yield MessagePart(
            topic=_text(topic),
            subscription=_text(subscription),
            generation=_text(generation),
            batch_size=size,
            deliveries=tuple(deliveries),
            due=due and _bounded(due, deliveries, bounds),
            **common,
        )
    if unused:
        raise ValueError("an event is in no part")


def _bounded(
    due: datetime, deliveries: Sequence[Delivery], bounds: Bounds | None
) -> datetime | None:
    longest = max(longest_wait(each.attempts) for each in deliveries)
    return due if bounds is None or bounds(StoredTime.DUE, due, longest) is due else None


def _events(wire: dict[str, Any], most: int, bounds: Bounds | None) -> Iterator[Delivery]:
    """Yield a first delivery of each event: at least one, and at most *most*."""
    origins = [_origin(bounds, *each) for each in wire["origins"]]
    if len({origin.payload for origin in origins if origin.payload}) > MAX_BLOBS:
        raise ValueError("too many payload blobs")
    listed: list[tuple[Origin, int]] = []
    for number, spans in wire["events"]:
        origin = origins[_number(number, 0, len(origins) - 1)]
        listed += [(origin, position) for position in positions_of(spans, most - len(listed))]
    if not listed:
        raise ValueError("no events")
    inline = sum(not origin.payload for origin, _ in listed)
    texts = iter(unpack(_text(wire["packed"]), inline))
    for origin, position in listed:
        text = None if origin.payload else next(texts)
        yield Delivery(origin=origin, position=position, text=text)


def _tried(deliveries: list[Delivery], counters: list[list[Any]]) -> Iterator[Delivery]:
    """Yield deliveries with their counters: ``[count, attempts, outcome, status, at]`` for each."""
    if sum(_number(count, 1) for count, *_ in counters) != len(deliveries):
        raise ValueError("counters of more or fewer deliveries than there are")
    start = 0
    for count, attempts, *last in counters:
        tried, attempt = _number(attempts), _attempt(*last) if last else None
        for each in deliveries[start : start + count]:
            yield replace(each, attempts=tried, last=attempt)
        start += count


def _origin(
    bounds: Bounds | None,
    publish_id: object,
    published_at: object,
    payload: object,
    first_line: object = 0,
    *trace: object,
) -> Origin:
    published = _moment(published_at)
    bounded = bounds(StoredTime.PUBLISHED, published) if bounds else published
    return Origin(
        _text(publish_id),
        bounded if bounds and bounds.corrects else published,
        None if payload is None else _text(payload),
        _number(first_line),
        TraceContext(*map(_text, trace)) if trace else None,
    )


def _attempt(outcome: object, status: object, at: object) -> LastAttempt:
    return LastAttempt(
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
