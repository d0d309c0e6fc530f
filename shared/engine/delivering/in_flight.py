"""Keeps what is known of a message while its deliveries are pushed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.requests.line import Entry
from shared.delivery.requests.push_batch import Loaded, PushBatch
from shared.engine.delivering.parts import Part
from shared.engine.delivering.results import Result

if TYPE_CHECKING:
    from shared.engine.delivering.budget import Places
    from shared.engine.delivering.endpoint import Endpoint
    from shared.engine.delivering.follow import Follow


class Answer(NamedTuple):
    """
    The result for deliveries of one part that belong together.

    *is_first*: the request's first event is among them, so what is counted once a request is
    counted with them.
    """

    part: Part
    batch: PushBatch
    result: Result
    is_first: bool


@dataclass(slots=True, kw_only=True, eq=False)
class Pushing:
    """
    One part while its deliveries are pushed by *endpoint*.

    *open* counts its deliveries in the line or under way, *under_way* its requests under way.
    *jitter* is that of its message.
    """

    part: Part
    message: InFlight
    endpoint: Endpoint
    open: int
    under_way: int = 0
    is_abandoned: bool = False

    def answer(self, batch: PushBatch, result: Result, *, is_first: bool = True) -> None:
        """Say what became of deliveries."""
        if self.is_abandoned:
            return
        self.open -= len(batch)
        if not self.open:
            self._left()
        self.message.tell(Answer(self.part, batch, result, is_first))

    def abandon(self) -> None:
        """Push nothing more of it, and hear of nothing more: its message comes again."""
        self.is_abandoned = True
        self.endpoint.line.withdraw(self)
        self._left()

    def _left(self) -> None:
        self.endpoint.left(self)
        self.message.left(self)


@dataclass(slots=True, kw_only=True, eq=False)
class InFlight:
    """
    A message whose deliveries are pushed, which holds one of the host's places until it has ended.

    *since* is in seconds of the loop's clock. *size* is that of its events in bytes. *pushing* has
    the parts of which something is in a line or under way.
    """

    places: Places
    follow: Follow
    since: float
    jitter: float
    size: int
    is_entering: bool = True
    under_way: int = 0
    pushing: dict[Pushing, None] = field(default_factory=dict)
    _answers: deque[Answer] = field(default_factory=deque)
    _waiter: asyncio.Future[None] | None = None

    def tell(self, answer: Answer) -> None:
        """Bring an answer to whoever waits for it."""
        self._answers.append(answer)
        self._wake()

    def left(self, pushing: Pushing) -> None:
        """Note that nothing of a part is open any more."""
        if self.pushing.pop(pushing, self) is None:
            self.places.recount(self)
            if self in self.places.surplus():
                self.park()

    def park(self) -> None:
        """Turn back what waits in lines, for places that others need."""
        for pushing in list(self.pushing):
            pushing.endpoint.withdraw(pushing, "slow endpoints have half of the messages in flight")

    def begin(self, endpoint: Endpoint) -> None:
        """Let an endpoint push; or turn all back, if slow ones have all places that they may."""
        if self.pushing and not self.places.admits(self):
            self.park()
        endpoint.pump()

    def have_entered(self) -> None:
        """Note that all of its parts have been judged."""
        self.is_entering = False
        self._wake()

    def abandon(self, part: Part | None = None) -> None:
        """Push nothing more of it, or of one part: it comes again."""
        self.follow.stored.abandon()
        for pushing in list(self.pushing):
            if part is None or pushing.part is part:
                pushing.abandon()

    @property
    def waits_for_quick(self) -> bool:
        """Whether any of its open parts is for an endpoint that is known to be quick."""
        return any(each.endpoint.is_quick for each in self.pushing)

    @property
    def is_open(self) -> bool:
        """Whether anything is judged, in a line, under way, or answered and not taken."""
        return bool(self.is_entering or self.pushing or self._answers)

    async def answers(self, until: float | None) -> Sequence[Answer]:
        """Return what is answered, after waiting *until* then for the first; maybe nothing."""
        if not self._answers:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = None if until is None else loop.call_at(until, self._wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer:
                    timer.cancel()
        found = list(self._answers)
        self._answers.clear()
        return found

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


Entries = Sequence[Entry[Pushing]]


@dataclass(slots=True, eq=False)
class Request:
    """A request to an endpoint: its events, and whose they are."""

    batch: PushBatch
    shares: Sequence[tuple[Pushing, PushBatch]]

    @property
    def part(self) -> Part:
        """The part whose subscription and terms count: that of the first event."""
        return self.shares[0][0].part

    @property
    def jitter(self) -> float:
        """The jitter for all of its events."""
        return self.shares[0][0].message.jitter

    def succeeded_late(self, outcome: DeliveryOutcome, sent_at: datetime) -> None:
        """Say to the endpoint and to all parts that it was accepted after its timeout."""
        first = self.shares[0][0]
        first.endpoint.succeeded_late(first.part.terms, sent_at)
        for pushing, batch in self.shares:
            late = pushing.message.follow.answered_late(pushing.part, batch, outcome)
            first.endpoint.spawn(late)

    def answer(self, result: Result) -> None:
        """Say to all parts what became of it."""
        for pushing, batch in self.shares:
            pushing.answer(batch, result, is_first=batch[0] is self.batch[0])


def request_of(entries: Entries) -> Request:
    """Return the request that sends *entries*."""
    if len(entries) == 1:
        batch: PushBatch = (entries[0].loaded,)
        return Request(batch, ((entries[0].owner, batch),))
    by_owner: dict[Pushing, list[Loaded]] = {}
    for each in entries:
        by_owner.setdefault(each.owner, []).append(each.loaded)
    shares = [(owner, tuple(loaded)) for owner, loaded in by_owner.items()]
    return Request(tuple(each.loaded for each in entries), shares)
