"""Pushes to one endpoint: decides what is sent next, and what is not sent now."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared import telemetry
from shared.delivery.delivery import Batch
from shared.delivery.furthest import LONGEST_IN_LINE
from shared.delivery.gate import (
    Availability,
    EndpointState,
    NotNow,
    PushNow,
    Until,
    Wait,
    as_held,
    gate,
)
from shared.delivery.health.endpoint_health import EVENTS_FAULT, Observation
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.pace import (
    ALONE,
    Accepted,
    Limit,
    Pacing,
    PushTimes,
    Returns,
    Share,
    Speed,
)
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.line import Line, requests_for
from shared.engine.delivering.in_hand import (
    Attempted,
    Part,
    PushRequest,
    Result,
    Shortage,
)
from shared.engine.delivering.judge import STORAGE_RETRY_DELAY
from shared.engine.delivering.scheduler import Scheduler
from shared.engine.delivering.shared_health import SharedHealth
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey
from shared.tasks import loop_time

TICK = 0.5  # seconds between two looks at what is not pushed at once
SOONEST_BACK = timedelta(seconds=1)  # of what could not be pushed in time
LEAST_A_SECOND = 5.0  # requests with what was held: an endpoint that failed has a small limit
SHORTAGE_AGAIN_IN = timedelta(seconds=5)  # and up to three times as long (jitter)


@dataclass(slots=True, kw_only=True, eq=False)
class Endpoint:
    """The endpoint of one subscription in this process, whose state belongs to the event loop."""

    subscription: EventSubscription  # as it was read last: its pause and its limits count
    health: SharedHealth
    scheduler: Scheduler
    limit: Limit
    returns: Returns
    # What is due now, whichever messages brought it.
    line: Line[Part] = field(default_factory=Line)
    # Those with deliveries in the line or under way: a set that keeps the order.
    parts: dict[Part, None] = field(default_factory=dict)
    times: PushTimes = field(default_factory=PushTimes)
    speed: Speed = Speed.UNKNOWN
    accepted: Accepted = field(default_factory=Accepted)
    pacing: Pacing = field(default_factory=Pacing)
    _requests: dict[PushRequest, None] = field(default_factory=dict)  # under way, in order
    waits: Wait | None = None  # what its line waited for when it was looked at last
    _entered: dict[Part, None] = field(default_factory=dict)  # since then, and not ended
    _answered: deque[tuple[PushRequest, Result | Shortage]] = field(default_factory=deque)
    _looks_at: float = 0.0  # seconds: when the limit a second allows the next request
    is_probing: bool = False  # a probe is being claimed, or under way
    _is_ticking: bool = False
    _is_refreshing: bool = False

    @property
    def id(self) -> str:
        """What `endpoint_id` gives for its subscription; a corrected endpoint has another."""
        return self.health.health.endpoint

    @property
    def key(self) -> SubscriptionKey:
        return self.health.key

    @property
    def under_way(self) -> int:
        return len(self._requests)

    @property
    def is_prompt(self) -> bool:
        """Whether what waits for it is soon pushed, as far as is known."""
        is_new = self.speed is Speed.UNKNOWN
        awaits_connection = self.waits and self.waits.until is Until.CONNECTION
        if self.line and (self.subscription.is_shared or (is_new and awaits_connection)):
            return False
        is_soon = self.times.free_soon(len(self.parts), self.limit.value, self._hangs_for())
        return is_soon and not self.scheduler.budget.keeps_from_first(self)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in its line or under way."""
        return not (self.parts or self.under_way or self.is_probing)

    def enter(self, part: Part) -> None:
        """Line up the deliveries of a part."""
        part.endpoint = self
        part.message.parts[part] = self.parts[part] = None
        self._entered[part] = None
        self.subscription = part.subscription
        self.line.add(part, part.to_push, part.subscription, part.terms)
        self._tick_soon()
        self.look_soon()

    def look_soon(self) -> None:
        """Have the line looked at in the next turn of the loop."""
        self.scheduler.schedule(self)

    def withdraw(self, part: Part) -> None:
        self.line.withdraw({part})
        self._forget(part)

    def pump(self) -> int:
        """
        Learn from a push that was answered, and begin one request at most.

        If more may begin, it is pumped again, after others. Returns how many were begun.
        """
        if self._answered:
            answered = self._answered.popleft()
            if self._answered:
                self.look_soon()  # Also if learning or looking raises.
            self._take_answer(*answered)
        begun = self._look()
        self._await()
        if self._answered or (self.line and self.waits is None):
            self.look_soon()
        else:
            entered, self._entered = self._entered, {}
            self._requeue_unless_prompt(
                each for each in entered if each.message.of_queue.is_half_full
            )
        return begun

    def _look(self) -> int:
        """
        Do what the gate says, until a request begins, or the line is empty or waits.

        Returns how many were begun.
        """
        self.waits = None
        if not self.line:
            return 0
        now, before = self.scheduler.clock.now(), self.under_way
        while self.line and self.waits is None and self.under_way == before:
            found = gate(self._state(now), now)
            if isinstance(found, Wait):
                self.waits = found
            elif isinstance(found, PushNow):
                self._begin_next(now, is_probe=found.is_probe)
            else:
                self._requeue(self.parts, found)
        return self.under_way - before

    def book_return(self, texts: Sequence[str | None]) -> datetime:
        """Book the return of events for which there is no room; a text not read yet is ``None``."""
        now = self.scheduler.clock.now()
        a_second = self.times.rate(max(self.under_way, 1), self._hangs_for())
        return self._book(texts, now + SOONEST_BACK, a_second)

    def succeeded_late(
        self, request: PushRequest, outcome: DeliveryOutcome, sent_at: datetime
    ) -> None:
        """Record a success after the timeout; it annuls the failure."""
        now = self.scheduler.clock.now()
        seen = Observation(
            outcome=Outcome.DELIVERED, new_events=0, sent_at=sent_at, ended_at=now, is_late=True
        )
        self.health.observed(seen, request.part.terms)
        self.look_soon()
        parts = request.by_part.items()
        taken = [part.message.answered_late(part, batch, outcome) for part, batch in parts]
        self.scheduler.tasks.spawn(self._annul_failure(request, taken))

    async def _annul_failure(self, request: PushRequest, taken: Sequence[Awaitable[bool]]) -> None:
        """Let the timeout of a request that is not repeated count no more."""
        if all(await asyncio.gather(*taken)):
            limit, half_used = self.limit, request.began_half_used
            self.limit = limit.after_late_success(request.ended_at, half_used=half_used)
            self._accept(request, loop_time())
            self.look_soon()

    @property
    def has_share(self) -> bool:
        """Whether other processes do not use the whole of a limit, as it was known last."""
        self._read_share()
        return not self.pacing.is_stopped

    def _read_share(self) -> Share | None:
        """Have the pace of this process's share; ``None``: it is unknown now."""
        subscription = self.subscription
        share = self.scheduler.processes.share() if subscription.is_shared else ALONE
        if share:
            self.pacing = self.pacing.with_share(share, subscription.limits, subscription.rate)
        return share

    def _state(self, now: datetime) -> EndpointState:
        """Return what the gate needs to know."""
        subscription, scheduler, share = self.subscription, self.scheduler, self._read_share()
        if pause := subscription.pause:
            found: Availability = as_held(pause, now)
        else:
            found = self.health.availability(self.line.first.terms, now)
        return EndpointState(
            is_stopping=scheduler.is_stopping,
            is_probing=self.is_probing,
            under_way=len(self._requests),
            limit=self.limit.value,
            pacing=self.pacing if share else None,
            availability=found,
            has_budget=scheduler.budget.may_push(self),
            seconds=loop_time(),
        )

    def _await(self) -> None:
        """Look again once what the line waits for is there; each push and probe does so anyway."""
        until = self.waits and self.waits.until
        if until is Until.BUDGET:
            self.scheduler.budget.waiting[self] = None
        else:
            self.scheduler.budget.waiting.pop(self, None)
        if until is Until.SHARE_IS_READ:
            self.scheduler.processes.tell(self.look_soon)
        elif self.waits and until is Until.TIME and self._looks_at != self.waits.seconds:
            self._looks_at = self.waits.seconds
            asyncio.get_running_loop().call_at(self._looks_at, self.look_soon)

    def _begin_next(self, now: datetime, *, is_probe: bool) -> None:
        """Begin the next request, or what claims a probe; maybe there is no connection for it."""
        if is_probe:
            self.is_probing = True
            self.scheduler.tasks.spawn(self._probe(self.line.first.terms))
            return
        url, (pacing, again_at) = self.subscription.destination.url, self.pacing.ask(now)
        if not again_at and not self.scheduler.reserve_connection(url, self.look_soon):
            self.waits = Wait(Until.CONNECTION)
        elif request := self._take(pacing, again_at):
            self._begin(request)

    def _take(self, pacing: Pacing, again_at: datetime | None) -> PushRequest | None:
        """Take the next request; it comes back if it exceeds the rate that the endpoint allows."""
        self.pacing, request = pacing, PushRequest(self.line.take())
        if again_at is None:
            return request
        self._report(request.by_part, NotNow(again_at, "the allowed rate of the endpoint"))
        return None

    def _begin(self, request: PushRequest) -> None:
        self._requests[request] = None
        self.scheduler.budget.count(self.speed, 1)
        request.began_at = now = loop_time()
        request.began_half_used = self.limit.is_half_used(self.under_way)
        self.pacing = self.pacing.after_request(now)
        self.scheduler.tasks.spawn(self._push(request))

    async def _push(self, request: PushRequest) -> None:
        """Push a request; its parts get a result in any case."""
        result: Result | Shortage
        try:
            result = await self.scheduler.push(request)
        except asyncio.CancelledError:
            self._take_later(request, RuntimeError("the push was cancelled"))
            raise
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            result = error
        self._take_later(request, result)

    def _take_later(self, request: PushRequest, result: Result | Shortage) -> None:
        """Leave the rest to the next turn of the loop."""
        self._answered.append((request, result))
        self.look_soon()

    def _take_answer(self, request: PushRequest, result: Result | Shortage) -> None:
        del self._requests[request]
        self.scheduler.budget.free(self.speed)
        try:
            if isinstance(result, Attempted):
                self._learn(request, result)
            elif request.is_probe:
                self.health.return_probe()
        except Exception as error:  # noqa: BLE001 - an internal error
            telemetry.error("endpoint.failed", **self.health.key._asdict(), detail=repr(error))
        self.is_probing = self.is_probing and not request.is_probe
        if isinstance(result, Shortage):
            self.scheduler.log_shortage(result)
            again_at = self.scheduler.clock.now() + SHORTAGE_AGAIN_IN * (1 + 2 * request.jitter)
            result = NotNow(again_at, f"a local shortage: {result.of}")
            if request.is_probe:
                self._requeue(self.parts, result)
        self._report(request.by_part, result)

    def _learn(self, request: PushRequest, result: Attempted) -> None:
        request.ended_at = now = loop_time()
        seen = Observation(
            outcome=result.outcome.outcome,
            new_events=sum(each.is_new for each in request.batch),
            sent_at=result.began_at,
            ended_at=result.ended_at,
            is_probe=request.is_probe,
            cause=result.outcome.cause,
        )
        if result.succeeded:
            if request.began_half_used or self.limit.is_half_used(self.under_way + 1):
                self.limit = self.limit.after_success()
            self._accept(request, now)
        elif seen.outcome not in EVENTS_FAULT:
            self.limit = self.limit.after_failure(request.began_at, now)
        self.times = self.times.with_another(now - request.began_at)
        self._judge_speed()
        self.health.observed(seen, request.part.terms)

    def _accept(self, request: PushRequest, now: float) -> None:
        requests = requests_for(self.subscription.batching, _texts(request.batch))
        self.accepted = self.accepted.with_more(requests, now)

    def _judge_speed(self) -> None:
        speed = self.times.speed(self._hangs_for())
        if speed is not self.speed:
            self.scheduler.budget.count(self.speed, -self.under_way)
            self.speed = speed
            self.scheduler.budget.count(speed, self.under_way)

    async def _probe(self, terms: DeliveryTerms) -> None:
        """Claim the probe of a hold that is over by time, and push one request alone."""
        request = None
        try:
            if await self.health.claim_probe(terms):
                if self.line and not self.subscription.pause:
                    request = self._take(*self.pacing.ask(self.scheduler.clock.now()))
                if request is None:
                    self.health.return_probe()
        finally:
            self.is_probing = request is not None
        if request:
            request.is_probe = True
            self._begin(request)
        else:
            self.look_soon()

    def _requeue(self, parts: Collection[Part], found: NotNow) -> None:
        """Requeue what parts have in the line; after a hold it comes back at a pace."""
        a_second = max(self.times.rate(self.limit.value, self._hangs_for()), LEAST_A_SECOND)
        for part, batch in self.line.withdraw(parts).items():
            due = self._book(_texts(batch), found.due, a_second) if found.held else found.due
            self._report({part: batch}, found._replace(due=due))

    def _requeue_paced(self, parts: Collection[Part], why: str) -> None:
        """Requeue what parts have in the line, to come back at the endpoint's pace."""
        for part, batch in self.line.withdraw(parts).items():
            self._report({part: batch}, NotNow(self.book_return(_texts(batch)), why))

    def _requeue_unless_prompt(self, parts: Iterable[Part]) -> None:
        """Requeue what parts have in the line, unless it will soon be pushed."""
        if (given := [*parts]) and not self.is_prompt:
            self._requeue_paced(given, "messages in hand exceed half of their limit")

    def _report(self, deliveries: Mapping[Part, Batch], result: Result) -> None:
        """Report to the message of each part what became of deliveries."""
        for part, batch in deliveries.items():
            part.message.report(part, batch, result)
            if not part.open:
                self._forget(part)

    def _forget(self, part: Part) -> None:
        """Keep nothing of a part that has ended: under load the line is never looked at idly."""
        self.parts.pop(part, None)
        self._entered.pop(part, None)

    def _book(
        self, texts: Sequence[str | None], soonest: datetime, requests_a_second: float
    ) -> datetime:
        """Book the return of events, at this rate or at twice what the endpoint took lately."""
        wanted = max(requests_a_second, 2 * self.accepted.per_second(loop_time()))
        a_second = min(wanted, self.pacing.most_a_second)
        requests = requests_for(self.subscription.batching, texts)
        self.returns, due = self.returns.book(
            requests, soonest, a_second, self.scheduler.clock.now()
        )
        return due

    def _hangs_for(self) -> float:
        """Return for how many seconds the oldest push has been under way."""
        oldest = next(iter(self._requests), None)
        return loop_time() - oldest.began_at if oldest else 0.0

    def _tick_soon(self) -> None:
        if not self._is_ticking:
            self._is_ticking = True
            asyncio.get_running_loop().call_later(TICK, self._tick)

    def _tick(self) -> None:
        """Look after what is not pushed at once, until nothing is left."""
        self._is_ticking = False
        self._judge_speed()
        old = loop_time() - LONGEST_IN_LINE.total_seconds()
        late = [each for each in self.parts if each.message.since < old]
        self._requeue_paced(late, "no push in time")
        self._requeue_unless_prompt(
            each for each in [*self.parts] if each.message.of_queue.is_nearly_full
        )
        if self.parts:
            self._tick_soon()
        self.look_soon()
        if self.line and not self._is_refreshing:
            self._is_refreshing = True
            self.scheduler.tasks.spawn(self._refresh())

    async def _refresh(self) -> None:
        """Learn which pause and limits the subscription has by now; storage may be slow to say."""
        try:
            self.subscription = await self.scheduler.as_cached(self.subscription)
        except StorageUnavailable:
            again_at = self.scheduler.clock.now() + STORAGE_RETRY_DELAY
            self._requeue(self.parts, NotNow(again_at, "its event subscription can't be read"))
        finally:
            self._is_refreshing = False
        if pause := self.subscription.pause:
            held = as_held(pause, self.scheduler.clock.now())
            self._requeue(self.parts, NotNow(held.until, held.why, held))


def _texts(batch: Batch) -> list[str]:
    return [each.event for each in batch]
