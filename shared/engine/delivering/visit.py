"""Defines what passes through an endpoint's gate: visits and requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.delivery.health.local_health import LocalHealth
from shared.delivery.requests.line import Entry
from shared.delivery.requests.push_batch import Loaded, PushBatch
from shared.engine.delivering.answers import Answer, Result
from shared.engine.delivering.late_answers import LateAnswers
from shared.engine.delivering.parts import Part
from shared.engine.ports import Inbox


@dataclass(slots=True, kw_only=True, eq=False)
class Visit:
    """
    The stay of one part of a message at its gate.

    *open* counts its deliveries in the line or under way, *pushing* its requests under way. When
    the last is answered, the visit comes to *inbox*. *behind_probe* waits for a probe's outcome.
    *health* is that of the endpoint that it came for. *since* and *stop_at* are seconds of a
    monotonic clock: no push begins after that. *is_in*: it counts as a message in flight.
    *passes_by*: it is to be handed over at once.
    """

    part: Part
    health: LocalHealth
    inbox: Inbox[Visit]
    late: LateAnswers
    jitter: float
    since: float
    stop_at: float
    open: int = 0
    pushing: int = 0
    behind_probe: Sequence[Entry[Visit]] = ()
    is_in: bool = False
    passes_by: bool = False
    answers: deque[Answer] = field(default_factory=deque)

    @property
    def was_held(self) -> bool:
        """Whether its deliveries waited before: their message has a due time."""
        return self.part.message.due is not None

    def answer(self, batch: PushBatch, result: Result, *, is_first: bool = True) -> None:
        """Say what became of deliveries. Call with the lock of the gates held."""
        self.answers.append(Answer(batch, result, is_first))
        self.open -= len(batch)
        if not self.open:
            self.inbox.put(self)


Entries = Sequence[Entry[Visit]]


class Request(NamedTuple):
    """The next request to an endpoint: its events, and whose they are."""

    batch: PushBatch
    shares: Sequence[tuple[Visit, PushBatch]]
    is_probe: bool

    @property
    def part(self) -> Part:
        """The part whose subscription and terms count: that of the first event."""
        return self.shares[0][0].part

    @property
    def health(self) -> LocalHealth:
        """The health of the endpoint that it is sent to."""
        return self.shares[0][0].health

    def answer(self, result: Result) -> None:
        """Answer all visits. Call with the lock of the gates held."""
        for visit, batch in self.shares:
            visit.pushing -= 1
            visit.answer(batch, result, is_first=batch[0] is self.batch[0])


def request_of(entries: Entries, *, is_probe: bool) -> Request:
    """Return the request that sends *entries*."""
    batch = tuple(each.loaded for each in entries)
    shares = shares_of(entries)
    for visit, _ in shares:
        visit.pushing += 1
    return Request(batch if len(shares) > 1 else shares[0][1], shares, is_probe)


def shares_of(entries: Entries) -> Sequence[tuple[Visit, PushBatch]]:
    """Divide the entries of one request by visit."""
    if len(entries) == 1:
        return ((entries[0].owner, (entries[0].loaded,)),)
    by_visit: dict[Visit, list[Loaded]] = {}
    for each in entries:
        by_visit.setdefault(each.owner, []).append(each.loaded)
    return [(visit, tuple(loaded)) for visit, loaded in by_visit.items()]
