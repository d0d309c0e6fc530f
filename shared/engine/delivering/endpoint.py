"""Pushes to one endpoint: decides what is sent next, and what is not sent now."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from shared import telemetry
from shared.delivery.delivery import Batch
from shared.delivery.furthest import LONGEST_IN_LINE
from shared.delivery.health.availability import Availability, Held, NeedsProbe, as_held
from shared.delivery.health.endpoint_health import EVENTS_FAULT, Observation
from shared.delivery.outcome import Outcome
from shared.delivery.pace import Accepted, Limit, Pacing, PushTimes, Returns, Speed
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.line import Line, requests_for
from shared.delivery.shares import ALONE
from shared.engine.delivering.in_flight import (
    InFlightMessage,
    InFlightPart,
    InFlightRequest,
    by_part,
    request_of,
)
from shared.engine.delivering.judge import STORAGE_RETRY_DELAY, JudgedPart
from shared.engine.delivering.results import Attempted, DeliveryResult, NotNow, Shortage
from shared.engine.delivering.shared_health import SharedHealth
from shared.engine.keeping.event_loop import loop_time
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import EventSubscription

if TYPE_CHECKING:
    from shared.engine.delivering.endpoints import Endpoints

TICK = 0.5  # seconds between two looks at what is not pushed at once
SOONEST_BACK = timedelta(seconds=1)  # of what could not be pushed in time
LEAST_A_SECOND = 5.0  # requests with what was held: an endpoint that failed has a small limit
NO_SHARE_AGAIN_IN = timedelta(seconds=5)  # of a limit smaller than the number of processes
SHORTAGE_AGAIN_IN = timedelta(seconds=5)  # and up to three times as long (jitter)


@dataclass(slots=True, kw_only=True, eq=False)
class Endpoint:
    """The endpoint of one subscription in this process, whose state belongs to the event loop."""

    subscription: EventSubscription  # as it was read last: its pause and its limits count
    health: SharedHealth
    endpoints: Endpoints
    limit: Limit
    returns: Returns
    # What is due now, whichever messages brought it.
    line: Line[InFlightPart] = field(default_factory=Line)
    # Those with deliveries in the line or under way: a set that keeps the order.
    parts: dict[InFlightPart, None] = field(default_factory=dict)
    times: PushTimes = field(default_factory=PushTimes)
    speed: Speed = Speed.UNKNOWN
    accepted: Accepted = field(default_factory=Accepted)
    pacing: Pacing = field(default_factory=Pacing)
    _requests: dict[InFlightRequest, None] = field(default_factory=dict)  # under way, in order
    _pumps_at: float = 0.0  # seconds: when the limit a second allows the next request
    _is_probing: bool = False
    _awaits_connection: bool = False
    _is_ticking: bool = False
    _is_refreshing: bool = False

    @property
    def id(self) -> str:
        """What `endpoint_id` gives for its subscription; a corrected endpoint has another."""
        return self.health.health.endpoint

    @property
    def under_way(self) -> int:
        return len(self._requests)

    @property
    def is_prompt(self) -> bool:
        """Whether the place of what waits for it is soon free, as far as is known."""
        is_new = self.speed is Speed.UNKNOWN
        if self.line and (self.subscription.is_shared or (is_new and self._awaits_connection)):
            return False
        is_soon = self.times.free_soon(len(self.parts), self.limit.value, self._hangs_for())
        return is_soon and not self.endpoints.budget.keeps_from_first(self)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in its line or under way."""
        return not (self.parts or self.under_way or self._is_probing)

    def enter(self, judged: JudgedPart, message: InFlightMessage) -> InFlightPart:
        """Line up the deliveries of a part; `pump` begins to push them."""
        part = InFlightPart(judged=judged, message=message, endpoint=self, open=len(judged.to_push))
        self.parts[part] = message.parts[part] = None
        self.subscription = judged.subscription
        self.line.add(part, judged.to_push, judged.subscription, judged.terms)
        self._tick_soon()
        return part

    def pump(self) -> None:
        """
        Begin the requests that may begin now.

        The line waits while a probe is under way or no more requests are allowed: by the endpoint's
        limit, this process's share of the subscription's limits, the budget, or the connections
        that are being opened to its host. It is requeued if the endpoint is held or paused, or the
        host stops; a request, if over the allowed rate.
        """
        if self.endpoints.budget.is_stopping:
            self._requeue_line(NotNow(self.endpoints.clock.now(), "the host stops"))
        while self.line and not self._is_probing and self.under_way < self.limit.value:
            if not self._is_within_limits():
                break
            terms = self.line.first.judged.terms
            found = self._availability(terms)
            if isinstance(found, Held):
                self._hold_line(found)
                break
            if not self.endpoints.budget.may_push(self):
                return  # It stays among those that the budget lets push later; `break` leaves them.
            if isinstance(found, NeedsProbe):
                self._is_probing = True
                self.endpoints.tasks.spawn(self._probe(terms))
                break
            if not self._begin_next():
                break
        self.endpoints.budget.leave(self)

    def requeue_unless_prompt(self, *parts: InFlightPart) -> None:
        """Requeue what parts have in the line, unless their places will soon be free."""
        if not self.is_prompt:
            self._requeue_paced(parts, "more than half of the places are taken")

    def book_return(self, texts: Sequence[str | None]) -> datetime:
        """Book the return of events for which there is no room; ``None``: one not read yet."""
        now = self.endpoints.clock.now()
        return self._book(
            texts, now + SOONEST_BACK, self._requests_a_second(max(self.under_way, 1))
        )

    def succeeded_late(self, terms: DeliveryTerms, sent_at: datetime) -> None:
        """Record a success of the endpoint after the timeout; it annuls the failure."""
        now = self.endpoints.clock.now()
        seen = Observation(
            outcome=Outcome.DELIVERED, new_events=0, sent_at=sent_at, ended_at=now, is_late=True
        )
        self.health.observed(seen, terms)
        self.pump()

    def timeout_annulled(self, request: InFlightRequest) -> None:
        """Let the timeout of a request count no more: it has succeeded, and is not repeated."""
        limit, half_used = self.limit, request.began_half_used
        self.limit = limit.after_late_success(request.ended_at, half_used=half_used)
        self._accept(request)
        self.pump()

    def _availability(self, terms: DeliveryTerms) -> Availability:
        now, pause = self.endpoints.clock.now(), self.subscription.pause
        return as_held(pause, now) if pause else self.health.availability(terms, now)

    def _is_within_limits(self) -> bool:
        """Tell whether the share of this process allows a request; if not, see to what follows."""
        subscription = self.subscription
        share = self.endpoints.processes.share(self.pump) if subscription.is_shared else ALONE
        if share is None:
            return False  # `pump` is called once it is read.
        self.pacing = self.pacing.with_share(share, subscription.limits, subscription.rate)
        if self.pacing.is_stopped:
            again_at = self.endpoints.clock.now() + NO_SHARE_AGAIN_IN
            self._requeue_line(NotNow(again_at, "other processes use the whole limit"))
            return False
        if self.pacing.is_early(loop_time()):
            if self._pumps_at != self.pacing.next_at:
                self._pumps_at = self.pacing.next_at
                asyncio.get_running_loop().call_at(self._pumps_at, self.pump)
            return False
        return self.pacing.has_room(self.under_way)

    def _begin_next(self) -> bool:
        """Begin the next request, or requeue it; ``False``: there is no connection for it yet."""
        _, again_at = self.pacing.ask(self.endpoints.clock.now())
        url = self.subscription.destination.url
        reserve = self.endpoints.reserve_connection
        self._awaits_connection = not again_at and not reserve(url, self.pump)
        if self._awaits_connection:
            return False
        if request := self._take():
            self._begin(request)
        return True

    def _take(self) -> InFlightRequest | None:
        """Take the next request; requeue it if it exceeds the rate that the endpoint allows."""
        request = request_of(self.line.take())
        self.pacing, again_at = self.pacing.ask(self.endpoints.clock.now())
        if again_at:
            request.report(NotNow(again_at, "the allowed rate of the endpoint"))
            return None
        return request

    def _begin(self, request: InFlightRequest) -> None:
        self._requests[request] = None
        self.endpoints.budget.count(self.speed, 1)
        request.began_at = now = loop_time()
        request.began_half_used = self.limit.is_half_used(self.under_way)
        self.pacing = self.pacing.after_request(now)
        self.endpoints.tasks.spawn(self._push(request))

    async def _push(self, request: InFlightRequest) -> None:
        """Push a request and learn from it; its parts get a result in any case."""
        result: DeliveryResult | Shortage
        try:
            result = await self.endpoints.push(request)
        except asyncio.CancelledError:
            self._ended(request, RuntimeError("the push was cancelled"))
            raise
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            result = error
        self._ended(request, result)

    def _ended(self, request: InFlightRequest, result: DeliveryResult | Shortage) -> None:
        del self._requests[request]
        self.endpoints.budget.count(self.speed, -1)
        try:
            if isinstance(result, Attempted):
                self._learn(request, result)
            elif request.is_probe:
                self.health.return_probe()
        except Exception as error:  # noqa: BLE001 - an internal error
            telemetry.error("endpoint.failed", **self.health.key._asdict(), detail=repr(error))
        self._is_probing = self._is_probing and not request.is_probe
        if isinstance(result, Shortage):
            self.endpoints.log_shortage(result)
            again_at = self.endpoints.clock.now() + SHORTAGE_AGAIN_IN * (1 + 2 * request.jitter)
            result = NotNow(again_at, f"a local shortage: {result.of}")
            if request.is_probe:
                self._requeue_line(result)
        request.report(result)
        self.pump()
        self.endpoints.budget.next_waiting()

    def _learn(self, request: InFlightRequest, result: Attempted) -> None:
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
            self._accept(request)
        elif seen.outcome not in EVENTS_FAULT:
            self.limit = self.limit.after_failure(request.began_at, now)
        self.times = self.times.with_another(now - request.began_at)
        self._judge_speed()
        self.health.observed(seen, request.part.terms)

    def _accept(self, request: InFlightRequest) -> None:
        requests = self._requests_for(_texts(request.batch))
        self.accepted = self.accepted.with_more(requests, loop_time())

    def _judge_speed(self) -> None:
        self.endpoints.budget.count(self.speed, -self.under_way)
        self.speed = self.times.speed(self._hangs_for())
        self.endpoints.budget.count(self.speed, self.under_way)

    async def _probe(self, terms: DeliveryTerms) -> None:
        """Claim the probe of a hold that is over by time, and push one request alone."""
        request = None
        try:
            if await self.health.claim_probe(terms):
                if self.line and not self.subscription.pause:
                    request = self._take()
                if request is None:
                    self.health.return_probe()
        finally:
            self._is_probing = request is not None
        if request:
            request.is_probe = True
            self._begin(request)
        else:
            self.pump()

    def _hold_line(self, held: Held) -> None:
        a_second = max(self._requests_a_second(self.limit.value), LEAST_A_SECOND)
        for part, batch in by_part(self.line.withdraw(self.parts)):
            due = self._book(_texts(batch), held.until, a_second)
            part.report(batch, NotNow(due, held.why, held))

    def _requeue_line(self, result: NotNow) -> None:
        for part, batch in by_part(self.line.withdraw(self.parts)):
            part.report(batch, result)

    def _requeue_paced(self, parts: Collection[InFlightPart], why: str) -> None:
        """Requeue what parts have in the line, to come back at the endpoint's pace."""
        for part, batch in by_part(self.line.withdraw(parts)):
            part.report(batch, NotNow(self.book_return(_texts(batch)), why))

    def _book(
        self, texts: Sequence[str | None], soonest: datetime, requests_a_second: float
    ) -> datetime:
        """Book the return of events, at this rate or at twice what the endpoint took lately."""
        wanted = max(requests_a_second, 2 * self.accepted.per_second(loop_time()))
        a_second = min(wanted, self.pacing.most_a_second)
        now, requests = self.endpoints.clock.now(), self._requests_for(texts)
        self.returns, due = self.returns.book(requests, soonest, a_second, now)
        return due

    def _requests_for(self, texts: Sequence[str | None]) -> float:
        return requests_for(self.subscription.batching, texts)

    def _requests_a_second(self, at_a_time: int) -> float:
        return self.times.rate(at_a_time, self._hangs_for())

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
        crowded = [each for each in self.parts if each.message.places.are_almost_gone]
        self.requeue_unless_prompt(*crowded)
        if self.parts:
            self._tick_soon()
        self.pump()
        if self.line and not self._is_refreshing:
            self._is_refreshing = True
            self.endpoints.tasks.spawn(self._refresh())

    async def _refresh(self) -> None:
        """Learn which pause and limits the subscription has by now; storage may be slow to say."""
        try:
            self.subscription = await self.endpoints.as_cached(self.subscription)
        except StorageUnavailable:
            again_at = self.endpoints.clock.now() + STORAGE_RETRY_DELAY
            self._requeue_line(NotNow(again_at, "its event subscription can't be read"))
        finally:
            self._is_refreshing = False
        if pause := self.subscription.pause:
            self._hold_line(as_held(pause, self.endpoints.clock.now()))


def _texts(batch: Batch) -> list[str]:
    return [each.event for each in batch]
