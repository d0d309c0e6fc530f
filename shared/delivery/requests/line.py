"""Keeps the deliveries of one subscription that are due now, and fills requests from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shared.delivery.delivery import Delivery
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.push_request import in_common
from shared.subscriptions.subscription import Batching, EventSubscription

Owner = TypeVar("Owner")


Owned = tuple[Delivery, Owner]  # a delivery in the line, and who learns its outcome


def requests_for(batching: Batching, texts: Sequence[str | None]) -> float:
    """
    Return about how many full requests events take; less than one if they leave room for others.

    ``None``, a text that is not read yet, may take a request of its own.
    """
    preferred = batching.preferred_kilobytes * 1024
    sizes = [preferred if text is None else min(len(text), preferred) for text in texts]
    return max(len(texts) / batching.max_events, sum(sizes) / preferred)


@dataclass(slots=True)
class _Group(Generic[Owner]):
    """Deliveries that may share requests, in the order in which they came."""

    batching: Batching
    deliveries: deque[Owned[Owner]] = field(default_factory=deque)
    sizes: deque[int] = field(default_factory=deque)  # of their events in a body

    def take(self) -> list[Owned[Owner]]:
        """
        Take the deliveries of one request.

        They are at most the allowed number of events, and no more than fill the preferred size,
        unless a single one is larger.
        """
        taken, size = [self.deliveries.popleft()], 1 + self.sizes.popleft()
        preferred = self.batching.preferred_kilobytes * 1024
        while self.deliveries and len(taken) < self.batching.max_events:
            size += self.sizes[0]
            if size > preferred:
                break
            taken.append(self.deliveries.popleft())
            self.sizes.popleft()
        return taken


class Line(Generic[Owner]):
    """
    A line of deliveries, whichever messages brought them; none waits for others to come.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group[Owner]] = {}
        self._variants: list[tuple[EventSubscription, DeliveryTerms]] = []

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __len__(self) -> int:
        return sum(len(group.deliveries) for group in self._groups.values())

    @property
    def first(self) -> Owner:
        """Whose the first delivery of the next request is. The line must not be empty."""
        return next(iter(self._groups.values())).deliveries[0][1]

    def add(
        self,
        owner: Owner,
        deliveries: Iterable[Delivery],
        subscription: EventSubscription,
        terms: DeliveryTerms,
    ) -> None:
        """
        Add deliveries; those with another subscription or terms share no request with them.

        For batches, that reads the events.
        """
        variant, is_batching = self._variant(subscription, terms), terms.batching.max_events > 1
        common, size = None, 0
        for each in deliveries:
            if is_batching:
                common, size = in_common(each, subscription, terms)
            group = self._groups.get(key := (variant, common))
            if group is None:
                group = self._groups[key] = _Group(terms.batching)
            group.deliveries.append((each, owner))
            group.sizes.append(size)

    def take(self) -> list[Owned[Owner]]:
        """Take the deliveries of the next request; groups take turns. It must not be empty."""
        key, group = next(iter(self._groups.items()))
        taken = group.take()
        del self._groups[key]
        if group.deliveries:
            self._groups[key] = group
        return taken

    def _variant(self, subscription: EventSubscription, terms: DeliveryTerms) -> int:
        """Return a number for a version of the subscription and its terms."""
        if not self._groups:
            self._variants.clear()
        for number, (known, known_terms) in enumerate(self._variants):
            if known is subscription and known_terms == terms:
                return number
        self._variants.append((subscription, terms))
        return len(self._variants) - 1

    def withdraw(self, owners: Collection[Owner]) -> list[Owned[Owner]]:
        """Take every delivery of *owners*."""
        withdrawn: list[Owned[Owner]] = []
        gone = set(map(id, owners))
        for key, group in list(self._groups.items()) if gone else ():
            waiting = zip(group.deliveries, group.sizes, strict=True)
            group.deliveries, group.sizes = deque(), deque()
            for each, size in waiting:
                if id(each[1]) in gone:
                    withdrawn.append(each)
                else:
                    group.deliveries.append(each)
                    group.sizes.append(size)
            if not group.deliveries:
                del self._groups[key]
        return withdrawn
