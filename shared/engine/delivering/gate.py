"""Decides for one endpoint what is pushed next, and what is not pushed now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.clock import Clock
from shared.delivery.allowed_rate import Allowance, ask
from shared.delivery.health.endpoint_health import Held, Observation
from shared.delivery.health.local_health import LocalHealth
from shared.delivery.health.pauses import as_held
from shared.delivery.requests.line import Line
from shared.delivery.slots.slots import STUCK_AFTER, Slots, SlotUse
from shared.engine.delivering.answers import Attempted, NotNow, Shortage
from shared.engine.delivering.visit import Entries, Request, Visit, request_of, shares_of
from shared.subscriptions.subscription import EventSubscription, Pause, SubscriptionKey

SHORTAGE_AGAIN_IN = timedelta(seconds=5)  # and up to three times as long, so that all don't meet

_NO_SLOT = "no slot in time"


@dataclass(slots=True, kw_only=True, eq=False)
class Gate:
    """
    One endpoint in this process: all of its methods need the lock of the gates.

    *line* has what is due now, whichever messages brought it. *probe* goes before it, alone.
    *pause* is that of the subscription as it was read last. *monotonic* returns seconds.
    """

    key: SubscriptionKey
    rules: Slots
    slots: SlotUse
    health: LocalHealth
    clock: Clock
    monotonic: Callable[[], float]
    line: Line[Visit] = field(default_factory=Line)
    probe: Entries = ()
    allowance: Allowance | None = None
    pause: Pause | None = None
    pushing: int = 0  # requests under way

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in it or under way."""
        return not (self.slots.visits or self.slots.used or self.line or self.probe)

    @property
    def lanes_wanted(self) -> int:
        """How many lanes should push what is in the line or under way."""
        requests = self.line.requests + bool(self.probe) + self.pushing
        return self.rules.lanes(self.slots, requests)

    def let_in(self, visit: Visit, entries: Entries, *, as_probe: bool) -> None:
        """Line deliveries up if the visit is admitted; *as_probe*: one request goes first."""
        visit.open += len(entries)
        if as_probe and self.probe:  # It waits for a slot still, longer than its claim lasted.
            self._turn_away(_requests(visit, entries), _NO_SLOT)
            return
        if not visit.is_in and not self._admits(visit, as_probe=as_probe):
            if as_probe:
                self.health.return_probe()
            why = "slow endpoints have all the slots that they may have"
            self._turn_away(_requests(visit, entries), why)
            return
        visit.is_in = True
        if not as_probe:
            self.line.add(entries, visit.part.subscription, visit.part.terms)
            return
        self.probe, *rest = _requests(visit, entries)
        visit.behind_probe = [entry for request in rest for entry in request]
        visit.open -= len(visit.behind_probe)

    def _admits(self, visit: Visit, *, as_probe: bool) -> bool:
        """Admit a visit, if only to hand it over at once."""
        has_line = bool(self.line)
        if self.rules.enter(self.slots, has_line=has_line):
            return True
        visit.passes_by = not as_probe and self.rules.pass_by(self.slots, has_line=has_line)
        return visit.passes_by

    def hold_back(self, visit: Visit, entries: Entries, held: Held) -> None:
        """Turn deliveries away because the endpoint is held."""
        visit.open += len(entries)
        self._hold(_requests(visit, entries), held)

    def set_pause(self, pause: Pause | None) -> None:
        """Learn whether the subscription is paused; what is not under way waits then."""
        self.pause = pause
        if pause and (self.line or self.probe):
            self._hold_all(as_held(pause, self.clock.now()))
            self.rules.stop_waiting(self.slots)

    def take(self) -> Request | None:
        """Take the next request that may be sent now, and turn away those before it."""
        now, time = self.clock.now(), self.monotonic()
        if self.pause:
            self._hold_all(as_held(self.pause, now))
        while self.probe or self.line:
            visit = (self.probe[0] if self.probe else self.line.first).owner
            if time >= visit.stop_at:
                self.withdraw(visit)
                continue
            if is_probe := bool(self.probe):
                entries, self.probe = self.probe, ()
            elif held := self.health.find_hold(visit.part.terms, now):
                self._hold(_drained(self.line), held)
                return None
            else:
                entries = self.line.take()
            again_at = self._over_rate(visit.part.subscription, now)
            if again_at is None:
                self.pushing += 1
                return request_of(entries, is_probe=is_probe)
            answer = NotNow(again_at, "the rate that the endpoint allows")
            self._answer(entries, answer, is_probe=is_probe)
        return None

    def ended(
        self, request: Request, result: Attempted | Shortage | Exception, seconds: float
    ) -> None:
        """Learn from a push that took *seconds*, and answer its visits in any case."""
        self.pushing -= 1
        if isinstance(result, Shortage):
            self._not_attempted(request, result)
            return
        try:
            if isinstance(result, Attempted):
                self._learn(request, result, seconds)
        finally:
            request.answer(result)

    def after_shortage(self, jitter: float) -> datetime:
        """Return when to try again what a shortage of ours has kept."""
        return self.clock.now() + SHORTAGE_AGAIN_IN * (1 + 2 * jitter)

    def recheck(self, visit: Visit) -> bool:
        """
        Turn away what can't be pushed soon; tell whether its part should be handed over.

        It should if its pushes are slow: its message must not stay in flight for that long.
        """
        time = self.monotonic()
        if time >= visit.stop_at or (not visit.pushing and self.rules.is_stuck(self.slots)):
            self.withdraw(visit)
        is_old = time - visit.since > STUCK_AFTER
        return visit.is_in and is_old and visit.pushing > 0 and self.rules.is_slow(self.slots)

    def withdraw(self, visit: Visit) -> None:
        """Turn away what a visit has in the line."""
        if any(each.owner is visit for each in self.probe):
            probe, self.probe = self.probe, ()
            self._turn_away([probe], _NO_SLOT, is_probe=True)
        if withdrawn := self.line.withdraw(visit):
            self._turn_away(_requests(visit, withdrawn), _NO_SLOT)
        if not self.line and not self.probe:
            self.rules.stop_waiting(self.slots)

    def turn_away_all(self, answer: NotNow) -> None:
        """Turn away everything that is not under way."""
        if self.probe:
            probe, self.probe = self.probe, ()
            self._answer(probe, answer, is_probe=True)
        for entries in _drained(self.line):
            self._answer(entries, answer)

    def _over_rate(self, subscription: EventSubscription, now: datetime) -> datetime | None:
        """Ask for a request at the allowed rate; return when to ask again if there is none."""
        if subscription.rate is None:
            return None
        self.allowance, again_at = ask(self.allowance, subscription.rate, now)
        return again_at

    def _not_attempted(self, request: Request, shortage: Shortage) -> None:
        """Put a request back: it says nothing about the endpoint."""
        self.rules.not_pushed(self.slots)
        visit = request.shares[0][0]
        answer = NotNow(self.after_shortage(visit.jitter), f"a shortage of ours: {shortage.of}")
        behind = self._return_probe(visit) if request.is_probe else ()
        request.answer(answer)
        for each in behind:
            visit.answer((each.loaded,), answer)

    def _learn(self, request: Request, result: Attempted, seconds: float) -> None:
        self.rules.pushed(self.slots, seconds, succeeded=result.succeeded)
        seen = Observation(
            outcome=result.outcome.outcome,
            new_events=sum(loaded.delivery.is_new for loaded in request.batch),
            sent_at=result.began_at,
            ended_at=result.ended_at,
            is_probe=request.is_probe,
        )
        request.health.observed(seen, request.part.terms)

    def _hold(self, requests: Sequence[Entries], held: Held) -> None:
        """Turn requests away until a paced time; the events of each come back together."""
        now = self.clock.now()
        for was_held in (True, False):
            chosen = [each for each in requests if each[0].owner.was_held is was_held]
            sizes = [len(each) for each in chosen]
            times = self.health.due_times(held, sizes, now, was_held=was_held) if chosen else []
            for entries, due in zip(chosen, times, strict=True):
                self._answer(entries, NotNow(due, held.why, held))

    def _hold_all(self, held: Held) -> None:
        """Turn away everything that is not under way, a claimed probe first."""
        if self.probe:
            probe, self.probe = self.probe, ()
            self._answer(probe, NotNow(held.until, held.why, held), is_probe=True)
        self._hold(_drained(self.line), held)

    def _turn_away(self, requests: Sequence[Entries], why: str, *, is_probe: bool = False) -> None:
        """Let requests that get no slot come back at a paced time."""
        answer = NotNow(self.clock.now() + self.rules.pace(self.slots, len(requests)), why)
        for entries in requests:
            self._answer(entries, answer, is_probe=is_probe)

    def _answer(self, entries: Entries, answer: NotNow, *, is_probe: bool = False) -> None:
        """Answer what was not sent; what waits for the outcome of a probe goes back with it."""
        owner = entries[0].owner
        behind = self._return_probe(owner) if is_probe else ()
        for visit, batch in shares_of(entries):
            visit.answer(batch, answer)
        for each in behind:
            owner.answer((each.loaded,), answer)

    def _return_probe(self, visit: Visit) -> Entries:
        """Let another visit probe; return what waited for the outcome of this one's."""
        self.health.return_probe()
        behind, visit.behind_probe = visit.behind_probe, ()
        visit.open += len(behind)
        return behind


def _requests(visit: Visit, entries: Entries) -> list[Entries]:
    """Divide entries of one visit into the requests that they make."""
    line: Line[Visit] = Line()
    line.add(entries, visit.part.subscription, visit.part.terms)
    return _drained(line)


def _drained(line: Line[Visit]) -> list[Entries]:
    requests: list[Entries] = []
    while line:
        requests.append(line.take())
    return requests
