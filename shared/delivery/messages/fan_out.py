"""Turns publications into queue messages of first attempts, as few as reasonable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeliveryMessage
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.messages.publication import Publication


class FanOut(NamedTuple):
    """The text of a message, and the publications that have events in it, counted from 0."""

    text: str
    publications: frozenset[int]


def fan_out(publications: Sequence[Publication]) -> list[FanOut]:
    """Return the messages of publications that are stored together."""
    events = [publication.deliveries() for publication in publications]
    source = {id(each): number for number, group in enumerate(events) for each in group}
    wanted: defaultdict[tuple[str, str, str, int], list[Delivery]] = defaultdict(list)
    for publication, group in zip(publications, events, strict=True):
        for each, positions in publication.matched:
            header = each.topic, each.name, each.generation, each.batching.max_events
            wanted[header] += [group[position] for position in positions]
    parts = [
        DeliveryMessage(
            topic=topic,
            subscription=subscription,
            generation=generation,
            batch_size=batch_size,
            deliveries=tuple(deliveries),
        )
        for (topic, subscription, generation, batch_size), deliveries in wanted.items()
    ]
    return [
        FanOut(text, frozenset(source[id(each)] for part in together for each in part.deliveries))
        for together, text in encode_together(parts)
    ]
