"""From the events of one publish request to the messages that carry them to their subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from shared.delivery.delivery import Delivery, Origin
from shared.delivery.message import DeliveryMessage, encode_group
from shared.delivery.packing import fits_inline, split
from shared.events.event import Event
from shared.subscriptions.filters import matches
from shared.subscriptions.subscription import EventSubscription

Positions = tuple[int, ...]


def match(
    events: Sequence[Event], subscriptions: Sequence[EventSubscription]
) -> list[tuple[EventSubscription, Positions]]:
    """Say which subscription gets which events; subscriptions that get none are left out."""
    matched = [
        (each, tuple(i for i, event in enumerate(events) if matches(each.filter, event)))
        for each in subscriptions
    ]
    return [(subscription, positions) for subscription, positions in matched if positions]


def parked_lines(
    matched: Sequence[tuple[EventSubscription, Positions]], events: Sequence[Event]
) -> list[str]:
    """
    Return the lines of the request's payload blob; none if every event fits into a message.

    A line an event: its text if it is too large for a message and wanted, else nothing.
    """
    wanted = {position for _, positions in matched for position in positions}
    large = {position for position in wanted if not fits_inline(events[position].text)}
    return [event.text if i in large else "" for i, event in enumerate(events)] if large else []


def fan_out(
    matched: Sequence[tuple[EventSubscription, Positions]],
    events: Sequence[Event],
    lines: Sequence[str],
    origin: Origin,
) -> list[str]:
    """
    Write the messages, as few as the events fit into.

    *lines* are those of the payload blob that *origin* names. Subscriptions that get the same
    events share the packing of their texts, which is most of the work.
    """
    inline = origin._replace(payload=None)
    texts = [None if lines and lines[i] else event.text for i, event in enumerate(events)]
    packed_groups: dict[Positions, list[tuple[list[Delivery], str]]] = {}
    messages: list[str] = []
    for subscription, positions in matched:
        if positions not in packed_groups:
            packed_groups[positions] = _groups(positions, texts, inline, origin)
        header = DeliveryMessage(
            topic=subscription.topic,
            subscription=subscription.name,
            generation=subscription.generation,
            deliveries=(),
        )
        messages += [
            encode_group(header, group, packed) for group, packed in packed_groups[positions]
        ]
    return messages


def _groups(
    positions: Positions, texts: Sequence[str | None], inline: Origin, parked: Origin
) -> list[tuple[list[Delivery], str]]:
    deliveries = [
        Delivery(origin=parked if texts[i] is None else inline, position=i, text=texts[i])
        for i in positions
    ]
    groups = []
    start = 0
    for count, packed in split([d.text for d in deliveries], [d.origin for d in deliveries]):
        groups.append((deliveries[start : start + count], packed))
        start += count
    return groups
