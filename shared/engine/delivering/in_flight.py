"""Keeps what is known of a message while its deliveries are pushed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from shared.delivery.delivery import Batch, Delivery
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.requests.line import Owned
from shared.engine.delivering.judge import JudgedPart
from shared.engine.delivering.results import DeliveryResult
from shared.subscriptions.subscription import SubscriptionKey

if TYPE_CHECKING:
    from shared.engine.delivering.budget import Places
    from shared.engine.delivering.endpoint import Endpoint
    from shared.engine.delivering.settle import Follow


class PartResult(NamedTuple):
    """The result of deliveries of one part that belong together."""

    part: JudgedPart
    batch: Batch
    result: DeliveryResult
    is_first: bool  # with the request's first event, and with what is counted once a request


@dataclass(slots=True, kw_only=True, eq=False)
class InFlightPart:
    """One part while its deliveries are pushed."""

    judged: JudgedPart
    message: InFlightMessage
    endpoint: Endpoint
    open: int  # deliveries in the line or under way

    def report(self, batch: Batch, result: DeliveryResult, *, is_first: bool = True) -> None:
        """Report what became of deliveries to the message, which stores what follows."""
        self.open -= len(batch)
        if not self.open:
            self._left()
        self.message.report(PartResult(self.judged, batch, result, is_first))

    def abandon(self) -> None:
        """Push nothing more of it: it comes again. Of what is under way no result is awaited."""
        self.endpoint.line.withdraw({self})
        self._left()

    def _left(self) -> None:
        self.endpoint.parts.pop(self, None)
        self.message.parts.pop(self, None)


@dataclass(slots=True, kw_only=True, eq=False)
class InFlightMessage:
    """
    A message whose deliveries are pushed, which holds one of the host's places until it has ended.
    """

    places: Places
    follow: Follow
    since: float  # seconds of the loop's clock
    jitter: float
    is_entering: bool = True
    # Parts of which something is in a line or under way: a set that keeps the order.
    parts: dict[InFlightPart, None] = field(default_factory=dict)
    faults: dict[SubscriptionKey, BaseException] = field(default_factory=dict)  # by part
    _results: list[PartResult] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def report(self, result: PartResult) -> None:
        self._results.append(result)
        self._news.set()

    def have_entered(self) -> None:
        self.is_entering = False
        self._news.set()

    def abandon(self, part: JudgedPart | None = None) -> None:
        """Push nothing more of it, or of one part: it comes again."""
        self.follow.comes_again(part)
        for each in list(self.parts):
            if part is None or each.judged is part:
                each.abandon()

    @property
    def is_open(self) -> bool:
        """Whether anything is being judged, in a line, under way, or reported and not taken."""
        return bool(self.is_entering or self.parts or self._results)

    async def results(self, until: float | None) -> Sequence[PartResult]:
        """Return what was reported; wait for the first, but not beyond *until*: maybe nothing."""
        if not self._results:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._news.wait()
        found, self._results = self._results, []
        return found


Entries = Sequence[Owned[InFlightPart]]


@dataclass(slots=True, eq=False)
class InFlightRequest:
    """A request to an endpoint: its events, and whose they are."""

    batch: Batch
    by_part: Sequence[tuple[InFlightPart, Batch]]
    is_probe: bool = False
    began_at: float = 0.0  # seconds of the loop's clock
    began_half_used: bool = False  # half of its endpoint's limit was in use when it began
    ended_at: float = 0.0  # likewise

    @property
    def part(self) -> JudgedPart:
        """The part whose subscription and terms count: that of the first event."""
        return self.by_part[0][0].judged

    @property
    def jitter(self) -> float:
        """The jitter for all of its events."""
        return self.by_part[0][0].message.jitter

    @property
    def endpoint(self) -> Endpoint:
        return self.by_part[0][0].endpoint

    def succeeded_late(self, outcome: DeliveryOutcome, sent_at: datetime) -> None:
        """Report to the endpoint and to all parts that it was accepted after its timeout."""
        self.endpoint.succeeded_late(self.part.terms, sent_at)
        self.endpoint.endpoints.tasks.spawn(self._take_back(outcome))

    async def _take_back(self, outcome: DeliveryOutcome) -> None:
        parts = [
            part.message.follow.answered_late(part.judged, batch, outcome)
            for part, batch in self.by_part
        ]
        if all(await asyncio.gather(*parts)):
            self.endpoint.timeout_annulled(self)

    def report(self, result: DeliveryResult) -> None:
        for part, batch in self.by_part:
            part.report(batch, result, is_first=batch[0] is self.batch[0])


def request_of(entries: Entries) -> InFlightRequest:
    return InFlightRequest([each for each, _ in entries], by_part(entries))


def by_part(entries: Entries) -> list[tuple[InFlightPart, Batch]]:
    found: dict[InFlightPart, list[Delivery]] = {}
    for each, owner in entries:
        found.setdefault(owner, []).append(each)
    return [*found.items()]
