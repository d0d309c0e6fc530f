"""Keeps the deliveries of one subscription that are due now, and fills requests from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.push_request import Loaded, in_common
from shared.subscriptions.subscription import Batching, EventSubscription

Owner = TypeVar("Owner")


@dataclass(slots=True, eq=False)
class Entry(Generic[Owner]):
    """A delivery in the line, and who learns its outcome."""

    loaded: Loaded
    owner: Owner
    common: Hashable = None  # equal for events that share a request
    size: int = 0  # of the event in a body


def entries_of(
    owner: Owner, loaded: Iterable[Loaded], subscription: EventSubscription, terms: DeliveryTerms
) -> list[Entry[Owner]]:
    """Return the entries of deliveries; for batches, that reads the events."""
    if terms.batching.max_events == 1:
        return [Entry(each, owner) for each in loaded]
    return [Entry(each, owner, *in_common(each, subscription, terms)) for each in loaded]


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
    """Entries that may share requests, in the order in which they came."""

    batching: Batching
    entries: deque[Entry[Owner]] = field(default_factory=deque)

    def take(self) -> list[Entry[Owner]]:
        """
        Take the entries of one request.

        They are at most the allowed number of events, and no more than fill the preferred size,
        unless a single one is larger.
        """
        first = self.entries.popleft()
        taken, size = [first], 1 + first.size
        preferred = self.batching.preferred_kilobytes * 1024
        while self.entries and len(taken) < self.batching.max_events:
            size += self.entries[0].size
            if size > preferred:
                break
            taken.append(self.entries.popleft())
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

    @property
    def first(self) -> Entry[Owner]:
        """The first entry of the next request. The line must not be empty."""
        return next(iter(self._groups.values())).entries[0]

    def add(
        self,
        entries: Iterable[Entry[Owner]],
        subscription: EventSubscription,
        terms: DeliveryTerms,
    ) -> None:
        """Add entries; those with another subscription or terms share no request with them."""
        variant = self._variant(subscription, terms)
        for each in entries:
            group = self._groups.get(key := (variant, each.common))
            if group is None:
                group = self._groups[key] = _Group(terms.batching)
            group.entries.append(each)

    def take(self) -> list[Entry[Owner]]:
        """Take the entries of the next request; groups take turns. The line must not be empty."""
        key, group = next(iter(self._groups.items()))
        taken = group.take()
        del self._groups[key]
        if group.entries:
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

    def withdraw(self, owners: Collection[Owner]) -> list[Entry[Owner]]:
        """Take every entry of *owners*."""
        withdrawn: list[Entry[Owner]] = []
        gone = set(map(id, owners))
        for key, group in list(self._groups.items()) if gone else ():
            withdrawn += [each for each in group.entries if id(each.owner) in gone]
            group.entries = deque(each for each in group.entries if id(each.owner) not in gone)
            if not group.entries:
                del self._groups[key]
        return withdrawn
