"""Decides from the outcomes of pushes when an endpoint is held, why, and until when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256

from shared.clock import in_words
from shared.delivery.outcome import Outcome
from shared.delivery.policy import DeliveryTerms
from shared.subscriptions.subscription import EventSubscription

PROBE_MARGIN = timedelta(seconds=10)  # added to the acknowledgement timeout: when a probe has ended
PROBE_RECHECK = timedelta(seconds=3)  # deliveries return after this during another's probe
# Refusals of the event itself, which say nothing about the endpoint.
EVENTS_FAULT = frozenset({Outcome.BAD_REQUEST, Outcome.PAYLOAD_TOO_LARGE})
_NEVER = datetime.min.replace(tzinfo=UTC)


class HoldReason(StrEnum):
    """The kind of a hold."""

    PAUSE = "Pause"
    PROBATION = "Probation"
    DELAYED_DELIVERY = "DelayedDelivery"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """
    A time from *since* until *until* in which nothing is sent; one probe follows it.

    A failed probe extends a hold, and *since* is the latest failure of one: no success that was
    sent earlier ends it. *began_at* is when the first failure was; ``None``: *since*.

    *sent_at* is when the push was sent whose failure began or last extended the hold.
    *probation* is the outcome of a probation in it, which may end sooner (*probation_until*);
    ``None``: the hold is delayed delivery alone. *delays* counts consecutive holds of delayed
    delivery. *probe_until* is the latest end of a probe that is under way; *probe_changes*
    counts probes begun or returned.
    """

    since: datetime
    until: datetime
    why: str
    sent_at: datetime
    probation: Outcome | None = None
    probation_until: datetime | None = None
    delays: int = 0
    probe_until: datetime | None = None
    probe_changes: int = 0
    began_at: datetime | None = None

    @property
    def began(self) -> datetime:
        return self.began_at or self.since

    @property
    def reason(self) -> HoldReason:
        return HoldReason.PROBATION if self.probation else HoldReason.DELAYED_DELIVERY


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """
    The health of a subscription's endpoint.

    *endpoint* is its id: health starts again for a corrected endpoint. Holds that began before
    *released_at* are over. *failures* counts consecutive failed first attempts of different
    events, since *counted_from*.
    """

    endpoint: str
    hold: Hold | None = None
    released_at: datetime | None = None
    failures: int = 0
    counted_from: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """
    The outcome of a push.

    *new_events* counts its events that were never pushed before. *is_late*: it counted as a
    failure until its answer came. *is_isolated*: it is a failure among successes, which begins no
    probation. *cause* is that of a failure, as the hold that it begins names it.
    """

    outcome: Outcome
    new_events: int
    sent_at: datetime
    ended_at: datetime
    is_probe: bool = False
    is_late: bool = False
    is_isolated: bool = False
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Open:
    """The endpoint is not held."""


@dataclass(frozen=True, slots=True)
class Held:
    """
    Nothing is pushed until *until*; *probation* is the outcome of a running probation.

    *is_pause*: the operator holds it, not the endpoint's failures.
    """

    until: datetime
    why: str
    probation: Outcome | None = None
    is_pause: bool = False


@dataclass(frozen=True, slots=True)
class NeedsProbe:
    """
    A hold is over by time: the process that claims the probe pushes one request first.

    *why* is that of the hold.
    """

    why: str = ""


Availability = Open | Held | NeedsProbe


def endpoint_id(subscription: EventSubscription) -> str:
    """Return an id of the endpoint that does not show its URL."""
    text = f"{subscription.generation} {subscription.endpoint_url}"
    return sha256(text.encode()).hexdigest()


def availability(health: Health, now: datetime) -> Availability:
    """Decide whether anything may be pushed at *now*."""
    hold = health.hold
    if hold is None:
        return Open()
    if now < hold.until:
        return Held(hold.until, hold.why, _running(hold, now))
    if hold.probe_until and now < hold.probe_until:
        until = min(now + PROBE_RECHECK, hold.probe_until)
        return Held(until, f"{hold.why}; a probe is under way")
    return NeedsProbe(hold.why)


def claim_probe(health: Health, terms: DeliveryTerms, now: datetime) -> Health:
    """Begin the probe of a hold that is over by time."""
    hold = health.hold
    if hold is None:
        return health
    until = now + terms.profile.acknowledgement_timeout + PROBE_MARGIN
    return replace(health, hold=_with_probe(hold, until))


def return_probe(health: Health) -> Health:
    """End a probe that says nothing about the endpoint, so that another may begin."""
    hold = health.hold
    if hold is None or hold.probe_until is None:
        return health
    return replace(health, hold=_with_probe(hold, None))


def observe(health: Health, seen: Observation, terms: DeliveryTerms) -> Health:
    """
    Return the health after a push has ended.

    A success releases a hold only if it was sent after the hold began, or if it is the late
    answer to the push that began it. A refusal of the event itself (400, 413) says nothing about
    the endpoint.
    Source: "Delivery and retry" (2023-03-01), Delayed delivery and the table of probations; the
    numbers of delayed delivery are ours (contract §3.6).
    """
    if seen.outcome in EVENTS_FAULT:
        return return_probe(health) if seen.is_probe else health
    if seen.outcome is Outcome.DELIVERED:
        return _succeeded(health, seen)
    failed = replace(health, failures=health.failures + seen.new_events)
    hold = _hold(failed, seen, terms)
    if hold is None and seen.is_probe and health.hold and health.hold.since < seen.sent_at:
        # The failure begins no other hold, and this one is over by time.
        return replace(failed, hold=None, released_at=_latest(health.released_at, seen.sent_at))
    return replace(failed, hold=_if_unreleased(_longer(failed.hold, hold), failed.released_at))


def release(health: Health, now: datetime) -> Health:
    """Return the health after an operator has ended its hold: failures count anew."""
    since = health.hold.since if health.hold else now
    released_at = max(now, since + timedelta.resolution)  # another clock may be ahead
    return replace(health, hold=None, released_at=released_at, failures=0, counted_from=now)


def _succeeded(health: Health, seen: Observation) -> Health:
    hold = health.hold
    if hold is None and not health.failures:
        return health  # The usual case.
    counted_from = _latest(health.counted_from, seen.ended_at)
    anew = replace(health, failures=0, counted_from=counted_from)
    if hold is None:
        return replace(anew, released_at=_latest(health.released_at, seen.sent_at))
    if seen.sent_at <= hold.since and not (seen.is_late and seen.sent_at >= hold.sent_at):
        return anew  # It was sent before the hold began.
    released_at = max(seen.sent_at, hold.since + timedelta.resolution)
    return replace(anew, hold=None, released_at=_latest(health.released_at, released_at))


def _hold(health: Health, seen: Observation, terms: DeliveryTerms) -> Hold | None:
    """Return the hold that a failure begins, if any."""
    old = health.hold
    goes_on = old is not None and not seen.is_probe and seen.ended_at < old.until
    since = old.since if old and goes_on else seen.ended_at
    began = min(old.began, seen.ended_at) if old else seen.ended_at
    hold: Hold | None = None
    probation = terms.profile.probation.get(seen.outcome)
    if probation and not seen.is_isolated:
        until = seen.ended_at + terms.scaled(probation)
        hold = Hold(
            since=since,
            until=until,
            why=_why(f"probation for {seen.outcome}: {in_words(probation)}", seen),
            sent_at=seen.sent_at,
            probation=seen.outcome,
            probation_until=until,
            began_at=began,
        )
    rule = terms.profile.delayed_delivery
    delays = old.delays if old else 0
    if rule and (seen.is_probe if delays else health.failures >= rule.failures):
        wait = rule.hold_after(delays)
        delayed = Hold(
            since=since,
            until=seen.ended_at + terms.scaled(wait),
            why=_why(f"delayed delivery: {in_words(wait)}", seen),
            sent_at=seen.sent_at,
            delays=delays + 1,
            began_at=began,
        )
        hold = _longer(hold, delayed)
    return hold


def _why(rule: str, seen: Observation) -> str:
    """Name the failure, when it was, and the rule by which a hold follows."""
    return f"{seen.cause} at {seen.ended_at:%H:%M:%SZ} ({rule})" if seen.cause else rule


def _with_probe(hold: Hold, until: datetime | None) -> Hold:
    return replace(hold, probe_until=until, probe_changes=hold.probe_changes + 1)


def _if_unreleased(hold: Hold | None, released_at: datetime | None) -> Hold | None:
    """Return the hold, unless a success that was sent after its beginning has released it."""
    return None if hold and released_at and released_at > hold.since else hold


def _longer(one: Hold | None, other: Hold | None) -> Hold | None:
    """Return the hold that ends later, with the longer probation and the greater counts of both."""
    if one is None or other is None:
        return one or other
    later = max(one, other, key=_rank)
    on_probation = max(one, other, key=_probation_rank)
    return replace(
        later,
        probation=on_probation.probation,
        probation_until=on_probation.probation_until,
        since=max(one.since, other.since),
        began_at=min(one.began, other.began),
        sent_at=max(one.sent_at, other.sent_at),
        delays=max(one.delays, other.delays),
    )


def _rank(hold: Hold) -> tuple[datetime, int, datetime, str]:
    return hold.until, hold.probe_changes, hold.probe_until or _NEVER, hold.why


def _probation_rank(hold: Hold) -> tuple[datetime, str]:
    return hold.probation_until or _NEVER, hold.probation or ""


def _running(hold: Hold, now: datetime) -> Outcome | None:
    """Return the outcome of the probation that is running, if any."""
    return hold.probation if hold.probation_until and now < hold.probation_until else None


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(one or _NEVER, other or _NEVER) if one or other else None
