"""Defines what events must have in common to share a request."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from shared.delivery.delivery import Delivery
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.conversion import event_body
from shared.delivery.requests.custom_headers import custom_headers
from shared.subscriptions.subscription import EventSubscription


class Loaded(NamedTuple):
    """A delivery with its event's text."""

    delivery: Delivery
    text: str


PushBatch = tuple[Loaded, ...]  # the events of one request, at least one


def in_common(
    loaded: Loaded, subscription: EventSubscription, terms: DeliveryTerms
) -> tuple[Hashable, int]:
    """
    Return what events must have in common to share a request, and the event's size in its body.

    All headers must be equal, and the events must have been tried together before: a batch that
    failed comes back whole.

    Source: "Delivery and retry", Output batching (2023-03-01); contract §2.4, §2.5.
    """
    delivery, text = loaded
    try:
        headers = tuple(custom_headers(terms.headers, text).items())
        size = len(event_body(subscription, text)) + 1  # a comma or bracket follows
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        # Damaged in storage: it gets a request of its own, and does not harm the others.
        return object(), len(text)
    return (headers, delivery.attempts, delivery.last if delivery.attempts else None), size
