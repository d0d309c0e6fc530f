"""Bounds the times of a message, which a clock that has jumped may have written."""

from __future__ import annotations

from dataclasses import replace

from shared.delivery.delivery import Delivery
from shared.delivery.furthest import LONGEST_KEEP, Bounds, StoredTime, longest_wait
from shared.delivery.messages.message import DeliveryMessage


def bounded_message(message: DeliveryMessage, bounds: Bounds) -> DeliveryMessage:
    """Return *message* with no time further ahead than a rule could put it; usually unchanged."""
    deliveries = tuple(_bounded(each, bounds) for each in message.deliveries)
    due, note = message.due, message.dead_letter
    if due:
        longest = max(longest_wait(each.attempts) for each in deliveries)
        due = bounds(StoredTime.DUE, due, longest)
    if note:
        keep_until = bounds(StoredTime.KEPT, note.keep_until, LONGEST_KEEP)
        note = replace(note, keep_until=keep_until)
    if not bounds.ahead:
        return message
    return replace(message, deliveries=deliveries, due=due, dead_letter=note)


def _bounded(delivery: Delivery, bounds: Bounds) -> Delivery:
    origin, last = delivery.origin, delivery.last
    published_at = bounds(StoredTime.PUBLISHED, origin.published_at)
    if last:
        last = last._replace(at=bounds(StoredTime.LAST_ATTEMPT, last.at))
    if published_at is origin.published_at and last == delivery.last:
        return delivery
    return replace(delivery, origin=origin._replace(published_at=published_at), last=last)
