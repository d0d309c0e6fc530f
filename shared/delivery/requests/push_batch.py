"""What one request carries: an event or, with output batching, several of one subscription."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.delivery.delivery import Delivery
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.conversion import event_body
from shared.delivery.requests.custom_headers import custom_headers
from shared.subscriptions.subscription import EventSubscription


class Loaded(NamedTuple):
    """A delivery and its event, as it is stored."""

    delivery: Delivery
    text: str


Parcel = tuple[Loaded, ...]  # never empty; its events succeed or fail together


def parcels(
    subscription: EventSubscription, terms: DeliveryTerms, loaded: Sequence[Loaded]
) -> list[Parcel]:
    """
    Divide what is there into requests; nothing ever waits for company.

    With batching a request never has more events than allowed, and no more than fill the
    preferred size, unless one alone does. Events share it only if all its headers would be the
    same for each, and if they were tried together before: a batch that failed comes back whole.

    Source: "Delivery and retry", Output batching (2023-03-01); contract §2.4, §2.5.
    """
    batching = terms.batching
    if batching.max_events == 1:
        return [(each,) for each in loaded]
    preferred = batching.preferred_kilobytes * 1024
    batches: list[_Batch] = []
    open_batches: dict[Hashable, _Batch] = {}
    for each in loaded:
        company, size = _company(each, subscription, terms)
        batch = open_batches.get(company)
        if (
            batch is None
            or len(batch.loaded) == batching.max_events
            or batch.size + size > preferred
        ):
            batch = open_batches[company] = _Batch()
            batches.append(batch)
        batch.loaded.append(each)
        batch.size += size
    return [tuple(batch.loaded) for batch in batches]


@dataclass(slots=True)
class _Batch:
    """A request in the making; *size* is that of its body, in bytes, with the first bracket."""

    loaded: list[Loaded] = field(default_factory=list)
    size: int = 1


def _company(
    loaded: Loaded, subscription: EventSubscription, terms: DeliveryTerms
) -> tuple[Hashable, int]:
    """Return what only events that share a request have in common, and the event's size in it."""
    delivery, text = loaded
    try:
        headers = tuple(custom_headers(terms.headers, text).items())
        size = len(event_body(subscription, text)) + 1  # a comma or bracket follows
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        # Storage was damaged: no request can be made of it, and it must not harm the others.
        return object(), len(text)
    return (headers, delivery.attempts, delivery.last), size
