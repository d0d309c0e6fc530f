"""Defines a message in hand: its parts, the requests that push them, and what comes of these."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple, Protocol

from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.delivery import Batch, Delivery
from shared.delivery.gate import Held, NotNow
from shared.delivery.messages.message import DeadLetterNote, MessagePart
from shared.delivery.messages.message_writer import dead_letter_note
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.pace import Speed
from shared.delivery.policy import DeliveryTerms, End, EndReason, EndState
from shared.engine.ports.settling import REPEATED_FOR, Ended, FollowUp
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey


class Shortage(NamedTuple):
    """A request could not be made for want of a local resource: no attempt."""

    of: str


class Attempted(NamedTuple):
    """The outcome of one request, with its start and end."""

    outcome: DeliveryOutcome
    began_at: datetime
    ended_at: datetime
    jitter: float  # for all of its events
    first: Delivery  # of them

    @property
    def succeeded(self) -> bool:
        """Whether the endpoint accepted the events."""
        return self.outcome.outcome is Outcome.DELIVERED


Result = Attempted | NotNow | Exception  # an exception is an internal error


class EndpointHandle(Protocol):
    """An endpoint, as what stands below it knows it: parts wait in it, and it makes requests."""

    @property
    def key(self) -> SubscriptionKey:
        """Whose it is."""

    @property
    def speed(self) -> Speed:
        """How fast its latest pushes were."""

    @property
    def under_way(self) -> int:
        """How many requests it has under way."""

    def pump(self) -> int:
        """Begin a request, if one may begin now; return how many were begun."""

    def withdraw(self, part: Part, /) -> None:
        """Push nothing more of a part."""

    def succeeded_late(
        self, request: PushRequest, outcome: DeliveryOutcome, sent_at: datetime
    ) -> None:
        """Learn that a request was accepted after its timeout."""


@dataclass(slots=True, kw_only=True, eq=False)
class Part:
    """The deliveries of one subscription in a message, judged before their attempt."""

    source: MessagePart
    subscription: EventSubscription
    terms: DeliveryTerms
    to_push: Sequence[Delivery]
    ended: Sequence[tuple[Delivery, End]]  # those that are not tried any more
    lost: Sequence[Delivery]  # those whose event is gone
    key: SubscriptionKey = field(init=False)  # of the subscription that gets the events
    message: MessageInHand = field(init=False)
    endpoint: EndpointHandle = field(init=False)
    open: int = 0  # deliveries that wait, or are under way
    # What is known of it when it is settled.
    is_settled: bool = False  # as a whole
    ends: list[Ended] = field(default_factory=list)  # that are to be settled
    rows: list[AttemptRecord] = field(default_factory=list)  # of attempts, that are to be settled
    delivered: list[Delivery] = field(default_factory=list)  # that are to be settled
    counts: Counter[str] = field(default_factory=Counter)
    held_by: Held | None = None  # what held a delivery last
    requeue_reason: str | None = None
    # When the subscription was compared with storage, in seconds, and whether it is unchanged.
    confirmed: tuple[float, bool] | None = None

    def __post_init__(self) -> None:
        self.key = self.source.key

    def begin(self, message: MessageInHand) -> None:
        """Count what is to be pushed as open."""
        self.message, self.open = message, len(self.to_push)

    def again(
        self,
        deliveries: Iterable[Delivery],
        due: datetime | None,
        note: DeadLetterNote | None = None,
    ) -> MessagePart:
        """Return what is stored of it for *deliveries*, which were judged."""
        return replace(
            self.source,
            deliveries=tuple(deliveries),
            due=due,
            rounds=0,
            batch_size=self.terms.batching.max_events,
            dead_letter=note,
        )

    def dead_letters(self, now: datetime) -> list[FollowUp]:
        """Return what waits for its blob: what has ended for the same reason waits together."""
        if (destination := self.terms.dead_letter) is None:
            return []
        by_reason: defaultdict[EndReason, list[Delivery]] = defaultdict(list)
        for each in self.ends:
            if each.state is EndState.DEAD_LETTERED:
                by_reason[each.reason].append(each.delivery)
        found = []
        for reason, deliveries in by_reason.items():
            due_at = max(self.terms.blob_due(each, now) for each in deliveries)
            note = dead_letter_note(self.subscription, self.terms, destination, reason, due_at)
            found.append(FollowUp(self.again(deliveries, None, note), blob_due_at=due_at))
        return found


@dataclass(slots=True, kw_only=True, eq=False)
class MessageInHand:
    """A message that is read, and whose deliveries are pushed: the host counts it until its end."""

    of_queue: MessagesInHand  # among them it is
    since: float  # seconds of the loop's clock
    jitter: float
    # Take back what followed; tell whether nothing of it is delivered again.
    answered_late: Callable[[Part, Batch, DeliveryOutcome], Awaitable[bool]] = field(init=False)
    is_entering: bool = True
    # Parts of which something is in a line or under way: a set that keeps the order.
    parts: dict[Part, None] = field(default_factory=dict)
    faults: dict[SubscriptionKey, BaseException] = field(default_factory=dict)  # by part
    _results: list[tuple[Part, Batch, Result]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def report(self, part: Part, batch: Batch, result: Result) -> None:
        """Hear what became of deliveries of a part, to store what follows."""
        part.open -= len(batch)
        if not part.open:
            self.parts.pop(part, None)
        self._results.append((part, batch, result))
        self._news.set()

    def have_entered(self) -> None:
        self.is_entering = False
        if not self.parts:  # else a result comes
            self._news.set()

    def wake(self) -> None:
        """End the wait for a result: there is something to store."""
        self._news.set()

    def abandon(self, part: Part | None = None) -> None:
        """Push nothing more of it, or of one part; of what is under way no result is awaited."""
        for each in [part] if part else [*self.parts]:
            if each in self.parts:
                del self.parts[each]
                each.endpoint.withdraw(each)

    @property
    def is_open(self) -> bool:
        """Whether anything is being judged, in a line, under way, or reported and not taken."""
        return bool(self.is_entering or self.parts or self._results)

    def has_ended(self, part: Part) -> bool:
        """Tell whether all results of a part were taken, and it does not come again."""
        is_reported = any(each is part for each, _, _ in self._results)
        return not (part.open or is_reported or part.key.folded in self.faults)

    async def results(self, until: float | None) -> Sequence[tuple[Part, Batch, Result]]:
        """Return what was reported; wait for the first, but not beyond *until*: maybe nothing."""
        if not self._results:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._news.wait()
        found, self._results = self._results, []
        return found


@dataclass(slots=True, kw_only=True)
class MessagesInHand:
    """
    The messages of one queue that the host has given to the function, at *most* so many.

    Once half of them are in hand, what would wait for an endpoint that does not answer briefly is
    requeued, and failing puts are not repeated.
    """

    most: int
    messages: dict[MessageInHand, None] = field(default_factory=dict)

    @property
    def is_half_full(self) -> bool:
        """Whether more than half are in hand: what comes may not wait long."""
        return len(self.messages) > self.most // 2

    @property
    def is_nearly_full(self) -> bool:
        """Whether more than three quarters are in hand: nor may what waits already."""
        return len(self.messages) > self.most * 3 // 4

    @property
    def repeat_for(self) -> timedelta:
        """How long a message may be kept in hand while puts fail."""
        return timedelta() if self.is_half_full else REPEATED_FOR


@dataclass(slots=True, eq=False)
class PushRequest:
    """A request to an endpoint: its events, and whose they are."""

    by_part: Mapping[Part, Batch]
    batch: Batch = field(init=False)
    part: Part = field(init=False)  # whose subscription and terms count: that of the first event
    is_probe: bool = False
    began_at: float = 0.0  # seconds of the loop's clock
    began_half_used: bool = False  # half of its endpoint's limit was in use when it began
    ended_at: float = 0.0  # seconds of the loop's clock

    def __post_init__(self) -> None:
        self.batch = [*chain.from_iterable(self.by_part.values())]
        self.part = next(iter(self.by_part))

    @property
    def jitter(self) -> float:
        """The jitter for all of its events."""
        return self.part.message.jitter
