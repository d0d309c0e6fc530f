"""Decides what is done now with what waits in an endpoint's line: push, wait or requeue."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

from shared.delivery.health.availability import Availability, Held, NeedsProbe
from shared.delivery.pace import Pacing

NO_SHARE_AGAIN_IN = timedelta(seconds=5)  # of a limit smaller than the number of processes


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
    """Push nothing of the line, or of its next request: it comes back, with no attempt counted."""

    due: datetime
    why: str
    held: Held | None = None  # the hold that keeps it, if it is one: *due* is the soonest
    is_line: bool = True


def gate(state: EndpointState, now: datetime) -> PushNow | Wait | NotNow:
    """Decide what becomes of a line that is not empty; the first rule that applies counts."""
    return _by_process(state, now) or _by_share(state, now) or _by_endpoint(state, now)


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


def _by_endpoint(state: EndpointState, now: datetime) -> PushNow | Wait | NotNow:
    found = state.availability
    if isinstance(found, Held):
        return NotNow(found.until, found.why, found)
    if not state.has_budget:
        return Wait(Until.BUDGET)
    if isinstance(found, NeedsProbe):
        return PushNow(is_probe=True)
    _, again_at = state.pacing.ask(now) if state.pacing else (None, None)
    return over_rate(again_at) if again_at else PushNow()


def over_rate(again_at: datetime) -> NotNow:
    """Return what becomes of a request that exceeds the rate that the endpoint allows."""
    return NotNow(again_at, "the allowed rate of the endpoint", is_line=False)
