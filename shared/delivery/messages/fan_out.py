"""From the events of one publish request to the messages that carry them to their subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from shared.delivery.delivery import Delivery, Origin
from shared.delivery.messages.message import EPOCH, DeliveryMessage, encode_group
from shared.delivery.messages.packing import fits, fits_inline, most_events, split
from shared.events.event import Event
from shared.subscriptions.event_values import EventValues
from shared.subscriptions.subscription import EventSubscription

Positions = tuple[int, ...]
_SOMEWHERE = Origin("", EPOCH, "")  # stands for the payload blob while none is written


def match(
    events: Sequence[Event], subscriptions: Sequence[EventSubscription]
) -> list[tuple[EventSubscription, Positions]]:
    """Say which subscription gets which events; subscriptions that get none are left out."""
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

    A line an event: its text if it is wanted and too large for a message, or for one that it
    shares with its batch; else nothing.
    """
    wanted = {position for _, positions in matched for position in positions}
    parked = {position for position in wanted if not fits_inline(events[position].text)}
    batched = {
        (positions, subscription.batching.max_events)
        for subscription, positions in matched
        if subscription.batching.max_events > 1
    }
    texts = [None if i in parked else event.text for i, event in enumerate(events)]
    if not all(_fit_in_batches(positions, batch, texts) for positions, batch in batched):
        # All of them: a batch that is partly in the blob would be written place by place.
        parked.update(position for positions, _ in batched for position in positions)
    return [event.text if i in parked else "" for i, event in enumerate(events)] if parked else []


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
    texts = [None if lines and lines[i] else event.text for i, event in enumerate(events)]
    packed_groups: dict[tuple[Positions, int], list[tuple[Sequence[Delivery], str]]] = {}
    messages: list[str] = []
    for subscription, positions in matched:
        batch = subscription.batching.max_events
        if (positions, batch) not in packed_groups:
            deliveries = _deliveries(positions, texts, origin)
            packed_groups[positions, batch] = list(split(deliveries, batch))
        header = DeliveryMessage(
            topic=subscription.topic,
            subscription=subscription.name,
            generation=subscription.generation,
            deliveries=(),
            batch=batch,
        )
        messages += [
            encode_group(header, group, packed) for group, packed in packed_groups[positions, batch]
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


def _fit_in_batches(positions: Positions, batch: int, texts: Sequence[str | None]) -> bool:
    """Tell whether messages can hold whole batches, as many events as they may have."""
    deliveries = _deliveries(positions, texts, _SOMEWHERE)
    most = most_events(batch)
    return all(
        fits(deliveries[start : start + most], batch) for start in range(0, len(positions), most)
    )
