"""Pushes to one endpoint: decides what is sent next, and what is not sent now."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shared import telemetry
from shared.clock import Clock
from shared.delivery.furthest import LONGEST_IN_LINE
from shared.delivery.health.availability import Availability, Held, NeedsProbe, as_held
from shared.delivery.health.endpoint_health import EVENTS_FAULT, Observation
from shared.delivery.outcome import Outcome
from shared.delivery.pace import Accepted, Allowance, Limit, Returns, ask
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.line import Entry, Line, entries_of
from shared.engine.delivering.budget import Budget, Speed
from shared.engine.delivering.in_flight import (
    InFlight,
    InFlightRequest,
    Pushing,
    by_part,
    request_of,
)
from shared.engine.delivering.loop_time import loop_time
from shared.engine.delivering.parts import JudgedPart
from shared.engine.delivering.processes import Processes
from shared.engine.delivering.results import Attempted, DeliveryResult, NotNow, Shortage
from shared.engine.delivering.shared_health import SharedHealth
from shared.subscriptions.subscription import EventSubscription, Pause, SubscriptionKey

QUICK = 1.0  # seconds: a push that takes more is slow
BRIEF = 0.25  # seconds of a push after which a place is soon free
LONGEST_TURN = 1.0  # seconds until the last of a line has its turn, likewise
SHORTEST = 0.1  # seconds that a push is taken to last
TICK = 0.5  # seconds between two looks at what is not pushed at once
SOONEST_BACK = timedelta(seconds=1)  # of what could not be pushed in time
LEAST_RATE = 5.0  # of what was held, a second: an endpoint that failed has a small limit
PACE = 1.05  # seconds in which the requests of a second are spread: clocks and networks differ
EARLY_TIMER = 0.001  # seconds by which a timer of the loop may come before its time
NO_SHARE_AGAIN_IN = timedelta(seconds=5)  # of a limit smaller than the number of processes
SHORTAGE_AGAIN_IN = timedelta(seconds=5)  # and up to three times as long (jitter)


class Surroundings(NamedTuple):
    """What all endpoints of a process use."""

    budget: Budget
    push: Callable[[InFlightRequest], Coroutine[Any, Any, Attempted | Shortage]]
    # Reads a subscription's pause again.
    current_pause: Callable[[EventSubscription], Coroutine[Any, Any, Pause | None]]
    log_shortage: Callable[[Shortage], None]
    clock: Clock
    limit: Limit
    processes: Processes


class _Share(NamedTuple):
    """This process's share of the limits of a subscription; ``None``: there is no such limit."""

    at_once: int | None = None
    a_second: int | None = None
    rate: int | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether other processes use the whole of a limit."""
        return 0 in self


class _Begun(NamedTuple):
    """When a request began, in seconds, and whether half of the limit was in use then."""

    at: float
    half_used: bool


@dataclass(slots=True, kw_only=True, eq=False)
class Endpoint:
    """The endpoint of one subscription in this process, whose state belongs to the event loop."""

    key: SubscriptionKey
    health: SharedHealth
    around: Surroundings
    limit: Limit
    returns: Returns
    # What is due now, whichever messages brought it.
    line: Line[Pushing] = field(default_factory=Line)
    # Those with deliveries in the line or under way.
    pushing: dict[Pushing, None] = field(default_factory=dict)
    under_way: int = 0
    seconds: float | None = None  # the moving average of its pushes' times
    accepted: Accepted = field(default_factory=Accepted)
    pause: Pause | None = None  # as it was read last
    allowance: Allowance | None = None
    speed: Speed = Speed.UNKNOWN
    _next_at: float = 0.0  # of the next request, if there is a limit a second
    _share: _Share | None = None  # as it was asked for last; ``None``: it is not known
    _is_paced: bool = False
    _is_probing: bool = False
    _is_ticking: bool = False
    _is_reading_pause: bool = False
    _begun: dict[InFlightRequest, _Begun] = field(
        default_factory=dict
    )  # under way, the oldest first

    @property
    def id(self) -> str:
        """What `endpoint_id` gives for its subscription; a corrected endpoint has another."""
        return self.health.health.endpoint

    @property
    def is_quick(self) -> bool:
        """Whether its latest pushes took less than a second."""
        return self.speed is Speed.QUICK

    @property
    def is_prompt(self) -> bool:
        """Whether the place of what waits for it is soon free, as far as is known."""
        takes = max(self.seconds or 0, self._hangs_for())
        is_soon = takes <= BRIEF and takes * len(self.pushing) <= LONGEST_TURN * self.limit.value
        is_soon = is_soon and not (self.line and self._subscription.is_shared)
        return is_soon and not self.around.budget.keeps_from_first(self)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in its line or under way."""
        return not (self.pushing or self.under_way or self._is_probing)

    def enter(self, part: JudgedPart, message: InFlight) -> Pushing:
        """Line up the deliveries of a part; `pump` begins to push them."""
        pushing = Pushing(part=part, message=message, endpoint=self, open=len(part.to_push))
        self.pushing[pushing] = message.pushing[pushing] = None
        self.pause = part.subscription.pause
        entries = entries_of(pushing, part.to_push, part.subscription, part.terms)
        self.line.add(entries, part.subscription, part.terms)
        self._tick_soon()
        return pushing

    def pump(self) -> None:
        """Begin the pushes that may begin now, and turn back what may not."""
        if self.around.budget.is_stopping:
            self.stop()
        while self.line and not self._is_probing and self.under_way < self.limit.value:
            self._share = self._current_share()
            if not self._is_within_share:
                self._wait_for_share()
                break
            terms = self.line.first.owner.part.terms
            found = self._availability(terms)
            if isinstance(found, Held):
                self._hold_line(found)
                break
            if not self.around.budget.may_push(self):
                return  # It stays among those that the budget lets push later; `break` leaves them.
            if isinstance(found, NeedsProbe):
                self._is_probing = True
                self.spawn(self._probe(terms))
                break
            if request := self._take():
                self._begin(request)
        self.around.budget.leave(self)

    def stop(self) -> None:
        """Turn back what is in the line, at once: the host stops."""
        now = self.around.clock.now()
        self._turn_back_line(lambda _: NotNow(now, "the host stops"))

    def give_way(self, *pushing: Pushing) -> None:
        """Turn back what parts have in the line, unless their places will soon be free."""
        if pushing and not self.is_prompt:
            self._withdraw(pushing, "more than half of the places are taken")

    def _withdraw(self, parts: Collection[Pushing], why: str) -> None:
        """Turn back what parts have in the line, uncounted, to come back at the endpoint's pace."""
        for pushing, batch in by_part(self.line.withdraw(parts)):
            pushing.report(batch, NotNow(self.book_return(len(batch)), why))

    def book_return(self, count: int) -> datetime:
        """Book the return of deliveries for which there is no room."""
        now = self.around.clock.now()
        return self._book(count, now + SOONEST_BACK, now, self._rate(max(self.under_way, 1)))

    def succeeded_late(self, terms: DeliveryTerms, sent_at: datetime) -> None:
        """Record a success of the endpoint after the timeout; it annuls the failure."""
        seen = Observation(
            outcome=Outcome.DELIVERED,
            new_events=0,
            sent_at=sent_at,
            ended_at=self.around.clock.now(),
            is_late=True,
        )
        self._observed(seen, terms)

    def _availability(self, terms: DeliveryTerms) -> Availability:
        now = self.around.clock.now()
        return as_held(self.pause, now) if self.pause else self.health.availability(terms, now)

    @property
    def _subscription(self) -> EventSubscription:
        """The subscription of the next request. The line must not be empty."""
        return self.line.first.owner.part.subscription

    def _current_share(self) -> _Share | None:
        """Return the share of the limits now; ``None``: `pump` is called once it is read."""
        subscription = self._subscription
        if not subscription.is_shared:
            return _Share()
        share = self.around.processes.share(self.pump)
        if share is None:
            return None
        wholes = (*subscription.limits, subscription.rate)
        return _Share(*(None if each is None else share.of(each) for each in wholes))

    @property
    def _is_within_share(self) -> bool:
        """Whether the share allows a request now."""
        share = self._share
        if share is None or share.is_nothing:
            return False
        if share.at_once is not None and self.under_way >= share.at_once:
            return False
        return not self._is_early

    @property
    def _step(self) -> float:
        """Seconds from one request to the next; 0 without a limit a second."""
        return PACE / self._share.a_second if self._share and self._share.a_second else 0.0

    @property
    def _is_early(self) -> bool:
        """Whether the next request would exceed the limit a second."""
        return self._step > 0 and loop_time() + EARLY_TIMER < self._next_at

    def _wait_for_share(self) -> None:
        """Turn back the line if the share is nothing; pump again when the next is not early."""
        if self._share and self._share.is_nothing:
            again_at = self.around.clock.now() + NO_SHARE_AGAIN_IN
            self._turn_back_line(lambda _: NotNow(again_at, "other processes use the whole limit"))
        elif self._is_early:
            self._pump_at(self._next_at)

    def _pump_at(self, time: float) -> None:
        if not self._is_paced:
            self._is_paced = True
            asyncio.get_running_loop().call_at(time, self._pump_again)

    def _pump_again(self) -> None:
        self._is_paced = False
        self.pump()

    def _take(self) -> InFlightRequest | None:
        """Take the next request; turn it back if it exceeds the rate that the endpoint allows."""
        entries = self.line.take()
        request, rate = request_of(entries), entries[0].owner.part.subscription.rate
        if rate is not None:
            rate = max(self.around.processes.latest.of(rate), 1)
            self.allowance, again_at = ask(self.allowance, rate, self.around.clock.now())
            if again_at:
                request.report(NotNow(again_at, "the allowed rate of the endpoint"))
                return None
        return request

    def _begin(self, request: InFlightRequest) -> None:
        self._count(1)
        self._begun[request] = _Begun(loop_time(), self.limit.is_half_used(self.under_way))
        self._next_at = loop_time() + self._step
        self.spawn(self._push(request))
        self._tick_soon()

    def _count(self, by: int) -> None:
        self.under_way += by
        self.around.budget.count(self, by)

    async def _push(self, request: InFlightRequest) -> None:
        """Push a request and learn from it; its parts get a result in any case."""
        result: DeliveryResult | Shortage = RuntimeError("the push was cancelled")
        try:
            result = await self.around.push(request)
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            result = error
        finally:
            self._ended(request, result)

    def _ended(self, request: InFlightRequest, result: DeliveryResult | Shortage) -> None:
        began = self._begun.pop(request)
        now = loop_time()
        try:
            if isinstance(result, Attempted):
                self._learn(request, result, began, now)
            elif request.is_probe:
                self.health.return_probe()
                self.spawn(self.health.save())
        except Exception as error:  # noqa: BLE001 - an internal error
            telemetry.error("endpoint.failed", **self.key._asdict(), detail=repr(error))
        self._count(-1)
        self._is_probing = self._is_probing and not request.is_probe
        if isinstance(result, Shortage):
            self.around.log_shortage(result)
            again_at = self.around.clock.now() + SHORTAGE_AGAIN_IN * (1 + 2 * request.jitter)
            result = put_back = NotNow(again_at, f"a local shortage: {result.of}")
            if request.is_probe:
                self._turn_back_line(lambda _: put_back)
        request.report(result)
        self.pump()
        self.around.budget.next_waiting()

    def _learn(
        self, request: InFlightRequest, result: Attempted, began: _Begun, now: float
    ) -> None:
        seen = Observation(
            outcome=result.outcome.outcome,
            new_events=sum(loaded.delivery.is_new for loaded in request.batch),
            sent_at=result.began_at,
            ended_at=result.ended_at,
            is_probe=request.is_probe,
            cause=result.outcome.cause,
        )
        if result.succeeded:
            if began.half_used or self.limit.is_half_used(self.under_way):
                self.limit = self.limit.after_success()
            self.accepted = self.accepted.with_more(len(request.batch), now)
        elif seen.outcome not in EVENTS_FAULT:
            self.limit = self.limit.after_failure(began.at, now)
        took = now - began.at
        before = took if self.seconds is None else self.seconds
        self.seconds = before + (took - before) / 4
        self._judge_speed()
        self._observed(seen, request.part.terms)

    def _observed(self, seen: Observation, terms: DeliveryTerms) -> None:
        if self.health.observed(seen, terms):
            self.spawn(self.health.save())

    def _judge_speed(self) -> None:
        """Learn how fast it is: anything under way for over a second counts."""
        if self._hangs_for() > QUICK:
            speed = Speed.SLOW
        elif self.seconds is None:
            speed = Speed.UNKNOWN
        else:
            speed = Speed.SLOW if self.seconds > QUICK else Speed.QUICK
        if speed is self.speed:
            return
        was_quick, self.speed = self.is_quick, speed
        if was_quick is not self.is_quick:
            self.around.budget.speed_changed(self)

    async def _probe(self, terms: DeliveryTerms) -> None:
        """Claim the probe of a hold that is over by time, and push one request alone."""
        try:
            is_claimed = await self.health.claim_probe(terms)
            request = self._take() if is_claimed and self.line and not self.pause else None
        except BaseException:
            self._is_probing = False
            raise
        if request:
            request.is_probe = True
            self._begin(request)
            return
        if is_claimed:
            self.health.return_probe()
            self.spawn(self.health.save())
        self._is_probing = False
        self.pump()

    def _turn_back_line(self, result_of: Callable[[int], NotNow]) -> None:
        """Turn back everything in the line: what a part has there comes back together."""
        entries: list[Entry[Pushing]] = []
        while self.line:
            entries += self.line.take()
        for pushing, batch in by_part(entries):
            pushing.report(batch, result_of(len(batch)))

    def _hold_line(self, held: Held) -> None:
        now, rate = self.around.clock.now(), max(self._rate(self.limit.value), LEAST_RATE)
        self._turn_back_line(
            lambda count: NotNow(self._book(count, held.until, now, rate), held.why, held)
        )

    def _book(self, count: int, soonest: datetime, now: datetime, rate: float) -> datetime:
        """Book the return of deliveries, at this rate or at twice what the endpoint took lately."""
        rate = max(rate, 2 * self.accepted.per_second(loop_time()))
        rate = min(rate, 1 / self._step) if self._step else rate
        self.returns, due = self.returns.book(count, soonest, rate, now)
        return due

    def _rate(self, at_a_time: int) -> float:
        """Return how many requests a second it can take, with so many under way."""
        seconds = QUICK if self.seconds is None else self.seconds
        return at_a_time / max(seconds, self._hangs_for(), SHORTEST)

    def _hangs_for(self) -> float:
        """Return for how many seconds the oldest push has been under way."""
        oldest = next(iter(self._begun.values()), None)
        return 0.0 if oldest is None else loop_time() - oldest.at

    def _tick_soon(self) -> None:
        if not self._is_ticking:
            self._is_ticking = True
            asyncio.get_running_loop().call_later(TICK, self._tick)

    def _tick(self) -> None:
        """Look after what is not pushed at once, until nothing is left."""
        self._is_ticking = False
        self._judge_speed()
        old = loop_time() - LONGEST_IN_LINE.total_seconds()
        self._withdraw(
            [each for each in self.pushing if each.message.since < old], "no push in time"
        )
        self.give_way(*(each for each in self.pushing if each.message.places.are_almost_gone))
        if self.pushing:
            self._tick_soon()
        self.pump()
        if self.line and not self._is_reading_pause:
            self._is_reading_pause = True
            self.spawn(self._read_pause(self.line.first.owner.part.subscription))

    async def _read_pause(self, subscription: EventSubscription) -> None:
        """Learn whether the subscription is paused by now; storage may be slow to say."""
        try:
            self.pause = await self.around.current_pause(subscription)
        finally:
            self._is_reading_pause = False
        if self.pause:
            self._hold_line(as_held(self.pause, self.around.clock.now()))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """
        Have work done that may outlive the invocation in which it begins.

        It has a context of its own: the host drops log lines of an invocation that has ended.
        """
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        _TASKS.add(task)
        task.add_done_callback(_TASKS.discard)


_TASKS: set[asyncio.Task[None]] = set()  # the loop itself refers to them weakly
