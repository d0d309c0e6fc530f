"""Defines a publication: what one publish request stores."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from shared.delivery.delivery import Delivery, Origin
from shared.delivery.messages.packing import fits_inline, most_events, packed, split
from shared.events.event import Event
from shared.events.literals import loads
from shared.subscriptions.event_values import EventValues
from shared.subscriptions.subscription import EventSubscription

Positions = tuple[int, ...]
Matched = Sequence[tuple[EventSubscription, Positions]]


class Load(NamedTuple):
    """How much is stored together, or a limit to it."""

    requests: int = 0
    deliveries: int = 0
    size: int = 0  # in characters of events

    def plus(self, other: Load) -> Load:
        return Load(*map(operator.add, self, other))

    def minus(self, other: Load) -> Load:
        return Load(*map(operator.sub, self, other))

    def exceeds(self, limit: Load) -> bool:
        return any(map(operator.gt, self, limit))

    def reaches(self, limit: Load) -> bool:
        return any(map(operator.ge, self, limit))


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What one publish request stores."""

    topic: str
    origin: Origin  # names the blob that has the parked lines
    texts: Sequence[str]  # the events, by position
    matched: Matched  # the positions that each subscription gets
    # The texts of events that do not fit into messages, or no lines if all fit.
    parked: Sequence[str]
    keep_until: datetime  # at least, the blob is kept
    considered: Sequence[EventSubscription] = ()  # the subscriptions whose filters were asked

    @classmethod
    def of(  # noqa: PLR0913 - each by its name
        cls,
        events: Sequence[Event],
        subscriptions: Sequence[EventSubscription],
        *,
        topic: str,
        origin: Origin,
        keep_until: datetime,
        message_size: int,
    ) -> Publication:
        """Match the events of a request with the subscriptions of its topic."""
        matched = match(events, subscriptions)
        texts = [event.text for event in events]
        return cls(
            topic=topic,
            origin=origin,
            texts=texts,
            matched=matched,
            parked=parked_lines(matched, texts, origin, message_size),
            keep_until=keep_until,
            considered=subscriptions,
        )

    @cached_property
    def load(self) -> Load:
        deliveries = sum(len(positions) for _, positions in self.matched)
        return Load(1, deliveries, sum(map(len, self.texts)))

    @property
    def unmatched(self) -> int:
        return len(self.texts) - len({i for _, positions in self.matched for i in positions})


def match(events: Sequence[Event], subscriptions: Sequence[EventSubscription]) -> Matched:
    """Return the positions of the events that each subscription gets, if it gets any."""
    published = [EventValues(event) for event in events]
    matched = [
        (each, tuple(i for i, values in enumerate(published) if each.filter.matches(values)))
        for each in subscriptions
    ]
    return [(subscription, positions) for subscription, positions in matched if positions]


def wants(subscription: EventSubscription, text: str) -> bool:
    """Tell whether a subscription gets a stored event; one that can't be read is not left out."""
    try:
        event = Event(schema=subscription.input_schema, members=loads(text), text=text)
        return subscription.filter.matches(EventValues(event))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return True


def parked_lines(
    matched: Matched, texts: Sequence[str], origin: Origin, message_size: int
) -> list[str]:
    """
    Return the lines in a payload blob of the events of *origin*; none if all fit into messages.

    The line of an event has its text if a subscription gets it and it is too large for a message,
    or for the message of its batch; otherwise the line is empty.
    """
    wanted = {position for _, positions in matched for position in positions}
    parked = {each for each in wanted if not fits_inline(texts[each], origin, message_size)}
    batched = {
        (positions, subscription.batching.max_events)
        for subscription, positions in matched
        if subscription.batching.max_events > 1
    }
    lines = [text if i in parked else "" for i, text in enumerate(texts)] if parked else []
    # Its payload has no name until the blob is written.
    deliveries = first_deliveries(origin._replace(payload=""), texts, lines) if batched else []
    if not all(_fit_in_batches(*batch, deliveries, message_size) for batch in batched):
        # All of them: a batch that is partly in the blob needs counters for every event.
        parked.update(position for positions, _ in batched for position in positions)
        lines = [text if i in parked else "" for i, text in enumerate(texts)]
    return lines


def first_deliveries(origin: Origin, texts: Sequence[str], parked: Sequence[str]) -> list[Delivery]:
    """Return a first delivery of each text, by position; *parked* has those in the blob."""
    inline = origin._replace(payload=None, first_line=0) if parked else origin
    return [
        Delivery(origin=origin, position=i, text=None)
        if parked and parked[i]
        else Delivery(origin=inline, position=i, text=text)
        for i, text in enumerate(texts)
    ]


def _fit_in_batches(
    positions: Positions, batch_size: int, deliveries: Sequence[Delivery], message_size: int
) -> bool:
    """Tell whether messages can hold whole batches, with as many events as allowed."""
    wanted = [deliveries[position] for position in positions]
    groups = list(split(wanted, batch_size, message_size, packed))
    return len(groups) == math.ceil(len(wanted) / most_events(batch_size))
