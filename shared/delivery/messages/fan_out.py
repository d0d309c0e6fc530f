"""Turns the events of one publish request into messages, one or more a subscription."""

from __future__ import annotations

from collections.abc import Sequence

from shared.delivery.delivery import Delivery, Origin
from shared.delivery.messages.message import EPOCH, DeliveryMessage, encode_group
from shared.delivery.messages.packing import fits, fits_inline, most_events, split
from shared.events.event import Event
from shared.subscriptions.event_values import EventValues
from shared.subscriptions.subscription import EventSubscription

Positions = tuple[int, ...]
_PARKED = Origin("", EPOCH, "")  # a placeholder until the payload blob is written


def match(
    events: Sequence[Event], subscriptions: Sequence[EventSubscription]
) -> list[tuple[EventSubscription, Positions]]:
    """Return the positions of the events that each subscription gets, if it gets any."""
    published = [EventValues(event) for event in events]
    matched = [
        (each, tuple(i for i, values in enumerate(published) if each.filter.matches(values)))
        for each in subscriptions
    ]
    return [(subscription, positions) for subscription, positions in matched if positions]


def parked_lines(
    matched: Sequence[tuple[EventSubscription, Positions]], events: Sequence[Event]
) -> list[str]:
    """
    Return the lines of the request's payload blob; none if every event fits into a message.

    The line of an event has its text if a subscription gets it and it is too large for a message,
    or for the message of its batch; otherwise the line is empty.
    """
    wanted = {position for _, positions in matched for position in positions}
    parked = {position for position in wanted if not fits_inline(events[position].text)}
    batched = {
        (positions, subscription.batching.max_events)
        for subscription, positions in matched
        if subscription.batching.max_events > 1
    }
    texts = [None if i in parked else event.text for i, event in enumerate(events)]
    if not all(_fit_in_batches(positions, batch_size, texts) for positions, batch_size in batched):
        # All of them: a batch that is partly in the blob needs counters for every event.
        parked.update(position for positions, _ in batched for position in positions)
    return [event.text if i in parked else "" for i, event in enumerate(events)] if parked else []


def fan_out(
    matched: Sequence[tuple[EventSubscription, Positions]],
    events: Sequence[Event],
    lines: Sequence[str],
    origin: Origin,
) -> list[str]:
    """
    Return the texts of the messages, as few as the events fit into.

    *lines* are those of the payload blob that *origin* names. Subscriptions that get the same
    events share the packing of their texts, which is most of the work.
    """
    texts = [None if lines and lines[i] else event.text for i, event in enumerate(events)]
    packed_groups: dict[tuple[Positions, int], list[tuple[Sequence[Delivery], str]]] = {}
    messages: list[str] = []
    for subscription, positions in matched:
        batch_size = subscription.batching.max_events
        if (positions, batch_size) not in packed_groups:
            deliveries = _deliveries(positions, texts, origin)
            packed_groups[positions, batch_size] = list(split(deliveries, batch_size))
        header = DeliveryMessage(
            topic=subscription.topic,
            subscription=subscription.name,
            generation=subscription.generation,
            deliveries=(),
            batch_size=batch_size,
        )
        messages += [
            encode_group(header, group, packed)
            for group, packed in packed_groups[positions, batch_size]
        ]
    return messages


def _deliveries(
    positions: Positions, texts: Sequence[str | None], origin: Origin
) -> list[Delivery]:
    inline = origin._replace(payload=None)
    return [
        Delivery(origin=origin if texts[i] is None else inline, position=i, text=texts[i])
        for i in positions
    ]


def _fit_in_batches(positions: Positions, batch_size: int, texts: Sequence[str | None]) -> bool:
    """Tell whether messages can hold whole batches, with as many events as allowed."""
    deliveries = _deliveries(positions, texts, _PARKED)
    most = most_events(batch_size)
    return all(
        fits(deliveries[start : start + most], batch_size)
        for start in range(0, len(positions), most)
    )
