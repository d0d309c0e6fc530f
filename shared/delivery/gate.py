"""
Decides what is done now with what waits in an endpoint's line: push, wait or requeue.

And what becomes of what is held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

from shared.clock import timestamp
from shared.delivery.delivery import Delivery, LastAttempt
from shared.delivery.health.endpoint_health import Health
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.pace import Pacing
from shared.delivery.policy import DeliveryTerms, End, EndReason, before_attempt
from shared.subscriptions.subscription import Pause

NO_SHARE_AGAIN_IN = timedelta(seconds=5)  # of a limit smaller than the number of processes
PROBE_RECHECK = timedelta(seconds=3)  # deliveries return after this during another's probe
SOONEST, LATEST = timedelta(seconds=1), timedelta(minutes=2)  # the first return in a pause
_CLIENT_ERRORS = frozenset({Outcome.NOT_FOUND, Outcome.UNAUTHORIZED, Outcome.FORBIDDEN})
_PROBATION = DeliveryOutcome(outcome=Outcome.PROBATION, status=None, seconds=0.0)
_UNTRIED = LastAttempt(Outcome.PROBATION, None, datetime(1970, 1, 1, tzinfo=UTC))  # equal for all


@dataclass(frozen=True, slots=True)
class Open:
    """The endpoint is not held."""


class Held(NamedTuple):
    """Nothing is pushed."""

    until: datetime
    why: str
    probation: Outcome | None = None  # the outcome that a running probation is for
    is_pause: bool = False  # by an operator


class NeedsProbe(NamedTuple):
    """A hold is over by time: the process that claims the probe pushes one request first."""

    why: str = ""  # of the hold


Availability = Open | Held | NeedsProbe


def availability(health: Health, now: datetime) -> Availability:
    """Decide whether anything may be pushed at *now*."""
    hold = health.hold
    if hold is None:
        return Open()
    if now < hold.until:
        is_running = hold.probation_until and now < hold.probation_until
        return Held(hold.until, hold.why, hold.probation if is_running else None)
    if hold.probe_until and now < hold.probe_until:
        until = min(now + PROBE_RECHECK, hold.probe_until)
        return Held(until, f"{hold.why}; a probe is under way")
    return NeedsProbe(hold.why)


def as_held(pause: Pause, now: datetime) -> Held:
    """
    Return the pause as a hold of unknown end: deliveries return to check.

    It returns after as long as the pause has lasted, within limits: so a short one ends soon after
    it is resumed, and a long one costs little. From then on returns are paced as after any hold.
    """
    wait = min(max(now - pause.since, SOONEST), LATEST)
    return Held(now + wait, f"paused since {timestamp(pause.since)} by {pause.by}", is_pause=True)


class EndpointState(NamedTuple):
    """What decides about the next request to an endpoint."""

    is_stopping: bool  # the host
    is_probing: bool
    under_way: int  # requests
    limit: int  # of these
    pacing: Pacing | None  # by this process's share of the subscription's limits; ``None``: unknown
    availability: Availability
    has_budget: bool  # for one more push
    seconds: float  # of the clock that times of `Pacing` are on


class Until(Enum):
    """What ends a wait."""

    PROBE_ENDS = auto()
    PUSH_ENDS = auto()
    SHARE_IS_READ = auto()
    TIME = auto()
    BUDGET = auto()
    CONNECTION = auto()


class PushNow(NamedTuple):
    """Push the next request."""

    is_probe: bool = False


class Wait(NamedTuple):
    """Leave the line as it is."""

    until: Until
    seconds: float = 0.0  # of `Until.TIME`: when


class NotNow(NamedTuple):
    """Push nothing of some deliveries: they come back, with no attempt counted."""

    due: datetime
    why: str
    held: Held | None = None  # the hold that keeps them, if it is one: *due* is the soonest


def gate(state: EndpointState, now: datetime) -> PushNow | Wait | NotNow:
    """Decide what becomes of a line that is not empty; the first rule that applies counts."""
    return _by_process(state, now) or _by_share(state, now) or _by_endpoint(state)


def _by_process(state: EndpointState, now: datetime) -> Wait | NotNow | None:
    if state.is_stopping:
        return NotNow(now, "the host stops")
    if state.is_probing:
        return Wait(Until.PROBE_ENDS)
    return Wait(Until.PUSH_ENDS) if state.under_way >= state.limit else None


def _by_share(state: EndpointState, now: datetime) -> Wait | NotNow | None:
    pacing = state.pacing
    if pacing is None:
        return Wait(Until.SHARE_IS_READ)
    if pacing.is_stopped:
        return NotNow(now + NO_SHARE_AGAIN_IN, "other processes use the whole limit")
    if pacing.is_early(state.seconds):
        return Wait(Until.TIME, pacing.next_at)
    return None if pacing.has_room(state.under_way) else Wait(Until.PUSH_ENDS)


def _by_endpoint(state: EndpointState) -> PushNow | Wait | NotNow:
    found = state.availability
    if isinstance(found, Held):
        return NotNow(found.until, found.why, found)
    if not state.has_budget:
        return Wait(Until.BUDGET)
    return PushNow(is_probe=isinstance(found, NeedsProbe))


def hold_back(
    delivery: Delivery, held: Held, terms: DeliveryTerms, now: datetime, judged_at: datetime
) -> tuple[Delivery, End | None]:
    """
    Return the delivery as it waits for the end of the hold, or as it has ended, with the end.

    Its age is judged at *judged_at*.

    Being held is neither an attempt nor an end, except by two switches of the deployment, for
    probation alone. With *probation_ends_events* a client error's probation ends deliveries,
    tried before or not; with *probation_counts_attempt* a held delivery counts an attempt, once
    however often it is held. What was never tried has ``Probation`` as its last outcome.
    Source: "Delivery and retry" (2023-03-01), probation; the reason from contract §3.6.
    """
    if held.is_pause:
        return delivery, None
    last = delivery.last or _UNTRIED
    if held.probation and terms.probation_ends_events and held.probation in _CLIENT_ERRORS:
        last = last._replace(outcome=Outcome.PROBATION, status=None)
        return replace(delivery, last=last), End(EndReason.PROBATION, held.why)
    is_counted = delivery.attempts > 0 and last.outcome is Outcome.PROBATION
    if held.probation is None or not terms.probation_counts_attempt or is_counted:
        return replace(delivery, last=last), None
    counted = delivery.tried(_PROBATION, now)
    return counted, before_attempt(counted, terms, judged_at)
