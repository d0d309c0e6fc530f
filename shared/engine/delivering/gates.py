"""Keeps the gates of all endpoints in this process, and the lanes that push for them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from shared import telemetry
from shared.clock import Clock, is_pending
from shared.delivery.health.endpoint_health import (
    Availability,
    Held,
    NeedsProbe,
    Observation,
    endpoint_id,
)
from shared.delivery.health.local_health import LocalHealth
from shared.delivery.health.pauses import as_held
from shared.delivery.outcome import Outcome
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.line import entries_of
from shared.delivery.slots.slots import Slots
from shared.engine.delivering.answers import Attempted, NotNow, Shortage
from shared.engine.delivering.gate import Gate
from shared.engine.delivering.shared_health import SharedHealth
from shared.engine.delivering.visit import Entries, Request, Visit
from shared.engine.ports import PushThreads
from shared.subscriptions.subscription import EventSubscription, Pause, SubscriptionKey

MAX_GATES = 10_000  # remembered while idle
SHORTAGE_TOLD_EVERY = timedelta(minutes=1)


@dataclass(slots=True, kw_only=True)
class Gates:
    """
    All gates, and the one lock of everything in them, which is never held while waiting.

    A lane is a thread that uses one slot of an endpoint: it pushes one request of the line after
    the other, by *push*. *monotonic* returns seconds. Thread-safe.
    """

    health: SharedHealth
    slots: Slots
    threads: PushThreads
    push: Callable[[Request], Attempted | Shortage]
    clock: Clock
    monotonic: Callable[[], float]
    lock: AbstractContextManager[object]
    _known: OrderedDict[SubscriptionKey, Gate] = field(default_factory=OrderedDict)
    _shortages: int = 0  # that are not told yet
    _told_at: datetime | None = None

    def __len__(self) -> int:
        """Return the number of known endpoints."""
        return len(self._known)

    def of(self, subscription: EventSubscription) -> Gate:
        """Return the gate of a subscription; a corrected endpoint's health starts anew."""
        key, endpoint = subscription.key.folded, endpoint_id(subscription)
        with self.lock:
            gate = self._known.get(key)
            if gate is None:
                gate = self._known[key] = Gate(
                    key=key,
                    rules=self.slots,
                    slots=self.slots.new(key),
                    health=LocalHealth.of(endpoint, self.clock.now()),
                    clock=self.clock,
                    monotonic=self.monotonic,
                )
                self._evict()
            elif gate.health.health.endpoint != endpoint:
                gate.health = LocalHealth.of(endpoint, self.clock.now())
            gate.pause = subscription.pause
            self._known.move_to_end(key)
            return gate

    def enter(self, gate: Gate, visit: Visit) -> None:
        """Let the deliveries of a part in, or turn them away; each gets an answer."""
        part = visit.part
        entries = entries_of(visit, part.to_push, part.subscription, part.terms)
        if not visit.was_held:
            with self.lock:
                visit.health.count_new(len(entries), self.clock.now())
        self._proceed(gate, visit, entries)

    def after_probe(self, gate: Gate, visit: Visit) -> None:
        """Let in what waited for the outcome of a probe."""
        waiting, visit.behind_probe = visit.behind_probe, ()
        self._proceed(gate, visit, waiting)

    def set_pause(self, gate: Gate, pause: Pause | None) -> None:
        """Learn whether a subscription is paused now."""
        with self.lock:
            gate.set_pause(pause)

    def recheck(self, gate: Gate, visit: Visit) -> bool:
        """Turn away what can't be pushed soon; tell whether its part should be handed over."""
        with self.lock:
            return gate.recheck(visit)

    def leave(self, gate: Gate, visit: Visit) -> None:
        """End a visit's stay in flight; its deliveries stay in the line."""
        with self.lock:
            if visit.is_in:
                visit.is_in = False
                self.slots.leave(gate.slots)
            lanes = self._lanes_in_turn()
        self._start(lanes)

    def abandon(self, gate: Gate, visit: Visit) -> None:
        """End a visit whose message will come again: nothing more of it is pushed."""
        with self.lock:
            gate.withdraw(visit)
        self.leave(gate, visit)

    def save(self, gate: Gate) -> None:
        """Share what was learned about an endpoint's health."""
        self.health.save(gate.health, gate.key)

    def succeeded_late(
        self, gate: Gate, health: LocalHealth, terms: DeliveryTerms, sent_at: datetime
    ) -> None:
        """Record a success of an endpoint after the timeout; it annuls the failure."""
        seen = Observation(
            outcome=Outcome.DELIVERED,
            new_events=0,
            sent_at=sent_at,
            ended_at=self.clock.now(),
            is_late=True,
        )
        with self.lock:
            health.observed(seen, terms)
        self.save(gate)

    def _proceed(self, gate: Gate, visit: Visit, entries: Entries) -> None:
        """Let deliveries in as far as health permits; after a hold, a probe first."""
        found = self._availability(gate, visit.part.terms)
        with self.lock:
            if isinstance(found, Held):
                gate.hold_back(visit, entries, found)
            else:
                gate.let_in(visit, entries, as_probe=isinstance(found, NeedsProbe))
            lanes = self._lanes(gate)
        self._start(lanes)

    def _availability(self, gate: Gate, terms: DeliveryTerms) -> Availability:
        """Return whether the endpoint is open or held; ``NeedsProbe``: the probe is claimed."""
        while True:
            if pause := gate.pause:
                return as_held(pause, self.clock.now())
            found = self.health.availability(gate.health, gate.key, terms)
            if not isinstance(found, NeedsProbe):
                return found
            if self.health.claim_probe(gate.health, gate.key, terms):
                return found

    def _lane(self, gate: Gate) -> None:
        request = self._next(gate, is_first=True)
        while request:
            result: Attempted | Shortage | Exception
            began = self.monotonic()
            try:
                result = self.push(request)
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                result = error if isinstance(error, Exception) else RuntimeError(repr(error))
            with self.lock:
                self._learned(gate, request, result, self.monotonic() - began)
                lanes = self._lanes_in_turn()
            if isinstance(result, Shortage):
                self._tell(result)
            self._start(lanes)
            request = self._next(gate)

    def _next(self, gate: Gate, *, is_first: bool = False) -> Request | None:
        """Return a lane's next request; ``None``: the lane ends."""
        with self.lock:
            may_go_on = is_first or self.slots.may_keep(gate.slots)
            if may_go_on and (request := self._taken(gate)):
                return request
            self.slots.release(gate.slots)
            if gate.line or gate.probe:
                self.slots.wait(gate.slots)
            else:
                self.slots.stop_waiting(gate.slots)
            lanes = self._lanes_in_turn()
        self._start(lanes)
        return None

    def _learned(
        self,
        gate: Gate,
        request: Request,
        result: Attempted | Shortage | Exception,
        seconds: float,
    ) -> None:
        try:
            gate.ended(request, result, seconds)
        except Exception as error:  # noqa: BLE001 - a lane never raises; its visits have answers
            telemetry.error("delivery.failed", **gate.key._asdict(), detail=repr(error))

    def _taken(self, gate: Gate) -> Request | None:
        """Take the next request; a fault of ours turns the line away, and hangs nobody."""
        try:
            return gate.take()
        except Exception as error:  # noqa: BLE001 - a lane never raises
            telemetry.error("delivery.failed", **gate.key._asdict(), detail=repr(error))
            gate.turn_away_all(NotNow(gate.after_shortage(0), "a fault of ours"))
            return None

    def _lanes(self, gate: Gate) -> list[Gate]:
        """Take the slots that a line needs; for what it doesn't get, it waits."""
        wanted, lanes = gate.lanes_wanted, []
        while gate.slots.used < wanted and self.slots.take(gate.slots):
            lanes.append(gate)
        if gate.slots.used < wanted:
            self.slots.wait(gate.slots)
        else:
            self.slots.stop_waiting(gate.slots)
        return lanes

    def _lanes_in_turn(self) -> list[Gate]:
        """Take slots that are free now for those that wait."""
        lanes: list[Gate] = []
        while use := self.slots.next_in_turn():
            gate = self._known[use.key]
            lanes.append(gate)
            if use.used >= gate.lanes_wanted:
                self.slots.stop_waiting(use)
        return lanes

    def _start(self, lanes: Sequence[Gate]) -> None:
        """Start lanes whose slots are taken. Call without the lock."""
        for gate in lanes:
            if not self.threads.start(partial(self._lane, gate)):
                with self.lock:
                    self._without_thread(gate)
                self._tell(Shortage("no thread is free"))

    def _tell(self, shortage: Shortage) -> None:
        """Log a shortage of ours, once a minute."""
        now = self.clock.now()
        with self.lock:
            self._shortages += 1
            told_at = self._told_at
            if told_at and is_pending(told_at + SHORTAGE_TOLD_EVERY, now, SHORTAGE_TOLD_EVERY):
                return
            count, self._shortages, self._told_at = self._shortages, 0, now
        telemetry.error("delivery.shortage", detail=shortage.of, count=count)

    def _without_thread(self, gate: Gate) -> None:
        """Turn everything away if no lane is left: a shortage of ours."""
        self.slots.release(gate.slots)
        if not gate.slots.used:
            self.slots.stop_waiting(gate.slots)
            gate.turn_away_all(NotNow(gate.after_shortage(0), "no thread is free"))

    def _evict(self) -> None:
        """Forget the gate that was idle for longest, if there are too many."""
        if len(self._known) > MAX_GATES:
            key = next((key for key, gate in self._known.items() if gate.is_idle), None)
            if key:
                del self._known[key]
