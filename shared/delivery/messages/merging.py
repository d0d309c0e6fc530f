"""Merges messages of the same subscriptions that are due together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import MessagePart


def headers_of(parts: Iterable[MessagePart]) -> frozenset[MessagePart]:
    """Return what messages have in common that one can replace: parts without deliveries."""
    return frozenset(map(_without_deliveries, parts))


def merged(messages: Iterable[Sequence[MessagePart]]) -> list[MessagePart]:
    """Return the parts of all messages, one for each subscription, without their due times."""
    found: dict[MessagePart, list[Delivery]] = defaultdict(list)
    for parts in messages:
        for part in parts:
            found[_without_deliveries(part)] += part.deliveries
    return [replace(part, deliveries=tuple(each)) for part, each in found.items()]


def _without_deliveries(part: MessagePart) -> MessagePart:
    return replace(part, deliveries=(), due=None)
