"""Compares the deliveries that publishers were promised with what became of each."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Promise = tuple[str, str]  # a subscription's name, and an event's id


class Row(NamedTuple):
    """
    What one or more runs of a scenario came to, in deliveries.

    *waiting* are still in a queue at the end: nothing had changed for minutes. *lost* are nowhere.
    *repeated* counts those beyond the first, *bound* the deliveries in messages that the attacks
    could make come again.
    """

    scenario: str
    runs: int = 0
    accepted: int = 0
    delivered: int = 0
    dead: int = 0
    waiting: int = 0
    lost: int = 0
    repeated: int = 0
    bound: int = 0

    def plus(self, other: Row) -> Row:
        sums = (one + another for one, another in zip(self[1:], other[1:], strict=True))
        return Row(self.scenario, *sums)


@dataclass(slots=True)
class Ledger:
    """The entries of one run; they are made from many threads."""

    accepted: set[Promise] = field(default_factory=set)
    _delivered: Counter[Promise] = field(default_factory=Counter)
    _dead: Counter[Promise] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def accept(self, promises: Iterable[Promise]) -> None:
        """Enter what a publisher was answered 200."""
        with self._lock:
            self.accepted.update(promises)

    def deliver(self, promises: Iterable[Promise]) -> None:
        """Enter what a subscriber received and accepted."""
        with self._lock:
            self._delivered.update(promises)

    def bury(self, promises: Iterable[Promise]) -> None:
        """Enter what was found in dead-letter blobs."""
        with self._lock:
            self._dead.update(promises)

    @property
    def open(self) -> set[Promise]:
        """What was accepted and has not come to its end."""
        with self._lock:
            return self.accepted - self._delivered.keys() - self._dead.keys()

    @property
    def entries(self) -> int:
        """The number of all entries, which grows as long as something happens."""
        with self._lock:
            return len(self.accepted) + self._delivered.total() + self._dead.total()

    def row(self, scenario: str, *, runs: int, bound: int, is_queue_empty: bool) -> Row:
        """Close the run: what is open is lost if no queue has a message any more."""
        left = len(self.open)
        ends = self._delivered + self._dead
        return Row(
            scenario=scenario,
            runs=runs,
            accepted=len(self.accepted),
            delivered=len(self.accepted & self._delivered.keys()),
            dead=len(self.accepted & self._dead.keys() - self._delivered.keys()),
            waiting=0 if is_queue_empty else left,
            lost=left if is_queue_empty else 0,
            repeated=sum(ends[each] - 1 for each in self.accepted if each in ends),
            bound=bound,
        )


def digest(body: str) -> str:
    """Return what stands for a poison message in the ledger."""
    return hashlib.sha256(body.encode()).hexdigest()
