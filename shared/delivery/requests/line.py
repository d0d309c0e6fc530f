"""Keeps the deliveries of one subscription that are due now, and fills requests from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from shared.delivery.delivery import Delivery
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.push_request import in_common
from shared.subscriptions.subscription import Batching, EventSubscription

Owner = TypeVar("Owner")


def requests_for(batching: Batching, texts: Sequence[str | None]) -> float:
    """
    Return about how many full requests events take; less than one if they leave room for others.

    ``None``, a text that is not read yet, may take a request of its own.
    """
    preferred = batching.preferred_kilobytes * 1024
    sizes = [preferred if text is None else min(len(text), preferred) for text in texts]
    return max(len(texts) / batching.max_events, sum(sizes) / preferred)


class _Waiting(NamedTuple, Generic[Owner]):
    """A delivery in the line, and who learns its outcome."""

    owner: Owner
    delivery: Delivery
    size: int  # of its event in a body


@dataclass(slots=True)
class _Group(Generic[Owner]):
    """Deliveries that may share requests, in the order in which they came."""

    batching: Batching
    waiting: deque[_Waiting[Owner]] = field(default_factory=deque)

    def take(self) -> dict[Owner, list[Delivery]]:
        """
        Take the deliveries of one request, by owner.

        They are at most the allowed number of events, and no more than fill the preferred size,
        unless a single one is larger.
        """
        taken = [self.waiting.popleft()]
        size, preferred = 1 + taken[0].size, self.batching.preferred_kilobytes * 1024
        while self.waiting and len(taken) < self.batching.max_events:
            size += self.waiting[0].size
            if size > preferred:
                break
            taken.append(self.waiting.popleft())
        return _by_owner(taken)


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
        return sum(len(group.waiting) for group in self._groups.values())

    @property
    def first(self) -> Owner:
        """Whose the first delivery of the next request is. The line must not be empty."""
        return next(iter(self._groups.values())).waiting[0].owner

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
            group.waiting.append(_Waiting(owner, each, size))

    def take(self) -> dict[Owner, list[Delivery]]:
        """
        Take the deliveries of the next request, by owner; groups take turns.

        The line must not be empty.
        """
        key, group = next(iter(self._groups.items()))
        taken = group.take()
        del self._groups[key]
        if group.waiting:
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

    def withdraw(self, owners: Collection[Owner]) -> dict[Owner, list[Delivery]]:
        """Take every delivery of *owners*."""
        withdrawn: list[_Waiting[Owner]] = []
        gone = set(owners)
        for key, group in list(self._groups.items()) if gone else ():
            withdrawn += [each for each in group.waiting if each.owner in gone]
            group.waiting = deque(each for each in group.waiting if each.owner not in gone)
            if not group.waiting:
                del self._groups[key]
        return _by_owner(withdrawn)


def _by_owner(taken: Iterable[_Waiting[Owner]]) -> dict[Owner, list[Delivery]]:
    found: dict[Owner, list[Delivery]] = {}
    for each in taken:
        found.setdefault(each.owner, []).append(each.delivery)
    return found
