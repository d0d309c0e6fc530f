"""Messages as they lie on a queue, and publications that become some."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pushgrid.testing.memory import START
from shared.delivery.delivery import Origin
from shared.delivery.messages.message import MessagePart, OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.messages.publication import Matched, Publication, match, parked_lines
from shared.engine.publishing.commit import fan_out
from shared.events.event import Event
from shared.subscriptions.subscription import EventSubscription
from tests.builders import (
    MESSAGE_SIZE,
    ORIGIN,
    PARKED,
    a_message,
    encode,
)


def read(text: str | bytes) -> MessagePart:
    (message,) = read_parts(text)
    return message


def read_parts(text: str | bytes) -> tuple[MessagePart, ...]:
    parts = decode(text)
    assert not isinstance(parts, OtherVersion | ReplayStep)
    return parts


def read_all(texts: Sequence[str]) -> list[MessagePart]:
    assert all(len(text) <= MESSAGE_SIZE for text in texts)
    return [read(text) for text in texts]


def read_shared(texts: Sequence[str]) -> list[tuple[MessagePart, ...]]:
    """Read messages that may have several parts."""
    assert all(len(text) <= MESSAGE_SIZE for text in texts)
    return [read_parts(text) for text in texts]


def together(*parts: MessagePart) -> str:
    """Write parts that share a message."""
    ((_, text),) = encode_together(parts, MESSAGE_SIZE)
    return text


def joined(texts: list[str]) -> MessagePart:
    """Read the parts of one message and put them together again."""
    parts = [read(text) for text in texts]
    deliveries = tuple(delivery for part in parts for delivery in part.deliveries)
    assert {replace(part, deliveries=()) for part in parts} == {replace(parts[0], deliveries=())}
    return replace(parts[0], deliveries=deliveries)


def wire(message: MessagePart | None = None, **members: Any) -> dict[str, Any]:
    (text,) = encode(message or a_message())
    document: dict[str, Any] = json.loads(text)
    return document | members


def a_publication(
    events: Sequence[Event], matched: Matched, origin: Origin | None = None
) -> Publication:
    texts = [event.text for event in events]
    lines = parked_lines(matched, texts, origin or ORIGIN, MESSAGE_SIZE)
    return Publication(
        topic="orders",
        origin=origin or (PARKED if lines else ORIGIN),
        texts=texts,
        matched=matched,
        parked=lines,
        keep_until=START,
    )


def published(
    events: Sequence[Event], *subscriptions: EventSubscription
) -> tuple[Sequence[str], list[MessagePart]]:
    """Return the lines of the payload blob, and the parts of all messages."""
    publication = a_publication(events, match(events, subscriptions))
    messages = read_shared([message.text for message in fan_out([publication], MESSAGE_SIZE)])
    return publication.parked, [part for parts in messages for part in parts]
