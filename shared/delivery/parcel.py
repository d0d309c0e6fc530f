"""What one request carries: an event or, with output batching, several of one subscription."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shared.delivery.delivery import Delivery
from shared.subscriptions.subscription import EventSubscription


class Loaded(NamedTuple):
    """A delivery and its event, as it is stored."""

    delivery: Delivery
    text: str


Parcel = tuple[Loaded, ...]  # never empty; its events succeed or fail together


def parcels(subscription: EventSubscription, loaded: Sequence[Loaded]) -> list[Parcel]:
    """Divide what is there into requests; nothing ever waits for company."""
    del subscription
    return [(each,) for each in loaded]
