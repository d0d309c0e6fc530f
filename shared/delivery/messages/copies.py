"""Merges copies of a delivery that were stored by mistake, so that they do not multiply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import EPOCH, MessagePart
from shared.subscriptions.subscription import SubscriptionKey


class _Identity(NamedTuple):
    """What has the same ``aeg-output-event-id``, of one generation of its subscription."""

    key: SubscriptionKey
    generation: str
    publish_id: str
    position: int


_State = tuple[int, datetime, float]  # the larger, the later
_Place = tuple[int, int, int]  # of a delivery: message, part, and place in the part


def without_copies(messages: Sequence[Sequence[MessagePart]]) -> list[tuple[MessagePart, ...]]:
    """
    Return the parts of each message, with one of several copies of a delivery in all of them.

    It is the one with most attempts, then with the latest one, then the soonest: what was tried
    since keeps its place on the schedule. Parts without deliveries are left out.
    """
    found: dict[_Identity, tuple[_State, _Place]] = {}
    for message, parts in enumerate(messages):
        for number, part in enumerate(parts):
            for place, each in enumerate(part.deliveries):
                candidate = _state(part, each), (message, number, place)
                known = found.setdefault(_identity(part, each), candidate)
                if candidate[0] > known[0]:
                    found[_identity(part, each)] = candidate
    kept = {place for _, place in found.values()}
    return [tuple(_kept(message, parts, kept)) for message, parts in enumerate(messages)]


def _kept(message: int, parts: Sequence[MessagePart], kept: set[_Place]) -> Iterable[MessagePart]:
    for number, part in enumerate(parts):
        deliveries = tuple(
            each for place, each in enumerate(part.deliveries) if (message, number, place) in kept
        )
        if len(deliveries) == len(part.deliveries):
            yield part
        elif deliveries:
            yield replace(part, deliveries=deliveries)


def _identity(part: MessagePart, each: Delivery) -> _Identity:
    origin = each.origin
    return _Identity(part.key.folded, part.generation, origin.publish_id, each.position)


def _state(part: MessagePart, each: Delivery) -> _State:
    soonest = -part.due.timestamp() if part.due else 0.0
    return each.attempts, each.last.at if each.last else EPOCH, soonest
