"""Groups events into push batches: one event or, with output batching, several a request."""

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
    """A delivery with its event's text."""

    delivery: Delivery
    text: str


PushBatch = tuple[Loaded, ...]  # the events of one request, at least one


def push_batches(
    subscription: EventSubscription, terms: DeliveryTerms, loaded: Sequence[Loaded]
) -> list[PushBatch]:
    """
    Group events into requests; none waits for others.

    With batching a request has at most the allowed number of events, and no more than fill the
    preferred size, unless a single one is larger. Events share a request only if all of its headers
    are equal for each, and if they were tried together before: a batch that failed comes back
    whole.

    Source: "Delivery and retry", Output batching (2023-03-01); contract §2.4, §2.5.
    """
    batching = terms.batching
    if batching.max_events == 1:
        return [(each,) for each in loaded]
    preferred = batching.preferred_kilobytes * 1024
    batches: list[_Batch] = []
    open_batches: dict[Hashable, _Batch] = {}
    for each in loaded:
        common, size = _in_common(each, subscription, terms)
        batch = open_batches.get(common)
        if (
            batch is None
            or len(batch.loaded) == batching.max_events
            or batch.size + size > preferred
        ):
            batch = open_batches[common] = _Batch()
            batches.append(batch)
        batch.loaded.append(each)
        batch.size += size
    return [tuple(batch.loaded) for batch in batches]


@dataclass(slots=True)
class _Batch:
    """A batch that is being filled; *size* is that of its body in bytes, from the first bracket."""

    loaded: list[Loaded] = field(default_factory=list)
    size: int = 1


def _in_common(
    loaded: Loaded, subscription: EventSubscription, terms: DeliveryTerms
) -> tuple[Hashable, int]:
    """Return what events must have in common to share a request, and the event's size in it."""
    delivery, text = loaded
    try:
        headers = tuple(custom_headers(terms.headers, text).items())
        size = len(event_body(subscription, text)) + 1  # a comma or bracket follows
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        # Damaged in storage: it gets a request of its own, and does not harm the others.
        return object(), len(text)
    return (headers, delivery.attempts, delivery.last), size
