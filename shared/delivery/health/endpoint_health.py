"""Decides from the outcomes of pushes when an endpoint is held, why, and until when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256

from shared.clock import in_words
from shared.delivery.furthest import LONGEST_PROBE, Bounds, StoredTime, longest_hold
from shared.delivery.outcome import Outcome
from shared.delivery.policy import DeliveryTerms
from shared.subscriptions.subscription import EventSubscription

PROBE_MARGIN = timedelta(seconds=10)  # added to the acknowledgement timeout: when a probe has ended
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
    """A time in which nothing is sent; one probe follows it, whose failure extends the hold."""

    extended_at: datetime  # or begun, by a failure: no success sent earlier ends it
    until: datetime
    why: str
    sent_at: datetime  # the start of the push that failed so
    cause: str = ""  # the failure in words, as `Observation.cause`; empty: not known
    probation: Outcome | None = None  # without one, the hold is delayed delivery alone
    probation_until: datetime | None = None
    delays: int = 0  # consecutive holds of delayed delivery
    probe_until: datetime | None = None  # the latest end of a probe that is under way
    probe_changes: int = 0  # probes begun or returned
    first_failed_at: datetime | None = None  # if that was not `extended_at`

    @property
    def began_at(self) -> datetime:
        return self.first_failed_at or self.extended_at

    @property
    def reason(self) -> HoldReason:
        return HoldReason.PROBATION if self.probation else HoldReason.DELAYED_DELIVERY


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of a subscription's endpoint."""

    endpoint: str  # its id: health starts again for a corrected endpoint
    hold: Hold | None = None
    released_at: datetime | None = None  # holds that began earlier are over
    failures: int = 0  # consecutive failed first attempts of different events
    counted_from: datetime | None = None  # since when these are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The outcome of a push."""

    outcome: Outcome
    new_events: int  # that were never pushed before
    sent_at: datetime
    ended_at: datetime
    is_probe: bool = False
    is_late: bool = False  # it counted as a failure until its answer came
    is_isolated: bool = False  # a failure among successes, which begins no probation
    cause: str = ""  # of a failure, as the hold that it begins names it


def endpoint_id(subscription: EventSubscription) -> str:
    """Return an id of the endpoint that does not show its URL."""
    text = f"{subscription.generation} {subscription.endpoint_url}"
    return sha256(text.encode()).hexdigest()


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
    answer to the push that began it.

    Source: "Delivery and retry" (2023-03-01), Delayed delivery and the table of probations; the
    numbers of delayed delivery are ours (contract §3.6).
    """
    if seen.outcome in EVENTS_FAULT:
        return return_probe(health) if seen.is_probe else health
    if seen.outcome is Outcome.DELIVERED:
        return _succeeded(health, seen)
    failed = replace(health, failures=health.failures + seen.new_events)
    hold = _hold(failed, seen, terms)
    if hold is None and seen.is_probe and health.hold and health.hold.extended_at < seen.sent_at:
        # This one is over by time.
        return replace(failed, hold=None, released_at=_latest(health.released_at, seen.sent_at))
    hold, released_at = _longer(health.hold, hold), health.released_at
    is_released = hold and released_at and released_at > hold.extended_at
    return replace(failed, hold=None if is_released else hold)


def release(health: Health, now: datetime) -> Health:
    """Return the health after an operator has ended its hold: failures count anew."""
    extended_at = health.hold.extended_at if health.hold else now
    released_at = max(now, extended_at + timedelta.resolution)  # another clock may be ahead
    return replace(health, hold=None, released_at=released_at, failures=0, counted_from=now)


def _succeeded(health: Health, seen: Observation) -> Health:
    hold = health.hold
    if hold is None and not health.failures:
        return health  # The usual case.
    counted_from = _latest(health.counted_from, seen.ended_at)
    anew = replace(health, failures=0, counted_from=counted_from)
    if hold is None:
        return replace(anew, released_at=_latest(health.released_at, seen.sent_at))
    if seen.sent_at <= hold.extended_at and not (seen.is_late and seen.sent_at >= hold.sent_at):
        return anew  # It was sent before the hold began.
    released_at = max(seen.sent_at, hold.extended_at + timedelta.resolution)
    return replace(anew, hold=None, released_at=_latest(health.released_at, released_at))


def _hold(health: Health, seen: Observation, terms: DeliveryTerms) -> Hold | None:
    """Return the hold that a failure begins, if any."""
    old = health.hold
    goes_on = old is not None and not seen.is_probe and seen.ended_at < old.until
    extended_at = old.extended_at if old and goes_on else seen.ended_at
    first_failed_at = min(old.began_at, seen.ended_at) if old else seen.ended_at
    hold: Hold | None = None
    anew = Hold(
        extended_at=extended_at,
        until=seen.ended_at,
        why="",
        sent_at=seen.sent_at,
        cause=seen.cause,
        first_failed_at=first_failed_at,
    )
    probation = terms.profile.probation.get(seen.outcome)
    if probation and not seen.is_isolated:
        until = seen.ended_at + terms.scaled(probation)
        why = _why(f"probation for {seen.outcome}: {in_words(probation)}", seen)
        hold = replace(anew, until=until, why=why, probation=seen.outcome, probation_until=until)
    rule = terms.profile.delayed_delivery
    delays = old.delays if old else 0
    if rule and (seen.is_probe if delays else health.failures >= rule.failures):
        wait = rule.hold_after(delays)
        until, why = seen.ended_at + terms.scaled(wait), f"delayed delivery: {in_words(wait)}"
        hold = _longer(hold, replace(anew, until=until, why=_why(why, seen), delays=delays + 1))
    return hold


def _why(rule: str, seen: Observation) -> str:
    """Name the failure, when it was, and the rule by which a hold follows."""
    return f"{seen.cause} at {seen.ended_at:%H:%M:%SZ} ({rule})" if seen.cause else rule


def _with_probe(hold: Hold, until: datetime | None) -> Hold:
    return replace(hold, probe_until=until, probe_changes=hold.probe_changes + 1)


def _longer(one: Hold | None, other: Hold | None) -> Hold | None:
    """Return the hold that ends later, with the longer probation and the greater counts of both."""
    if one is None or other is None:
        return one or other
    on_probation = max(
        one, other, key=lambda each: (each.probation_until or _NEVER, each.probation or "")
    )
    later = max(one, other, key=_rank)
    return replace(
        later,
        probation=on_probation.probation,
        probation_until=on_probation.probation_until,
        extended_at=max(one.extended_at, other.extended_at),
        first_failed_at=min(one.began_at, other.began_at),
        sent_at=max(one.sent_at, other.sent_at),
        delays=max(one.delays, other.delays),
    )


def _rank(hold: Hold) -> tuple[datetime, int, datetime, str]:
    return hold.until, hold.probe_changes, hold.probe_until or _NEVER, hold.why


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(one or _NEVER, other or _NEVER) if one or other else None


def bounded_health(health: Health, bounds: Bounds) -> Health:
    """Return *health* with no time further ahead than a rule could put it; usually unchanged."""
    hold, released_at, counted_from = health.hold, health.released_at, health.counted_from
    if not (hold or released_at or counted_from):  # as it mostly is: asked for each push
        return health
    return replace(
        health,
        hold=hold and _bounded(hold, bounds),
        released_at=released_at and bounds(StoredTime.HOLD, released_at),
        counted_from=counted_from and bounds(StoredTime.HOLD, counted_from),
    )


def _bounded(hold: Hold, bounds: Bounds) -> Hold:
    what, longest = StoredTime.HOLD, longest_hold(hold.probation, hold.delays)
    return replace(
        hold,
        extended_at=bounds(what, hold.extended_at),
        first_failed_at=hold.first_failed_at and bounds(what, hold.first_failed_at),
        sent_at=bounds(what, hold.sent_at),
        until=bounds(what, hold.until, longest),
        probation_until=hold.probation_until and bounds(what, hold.probation_until, longest),
        probe_until=hold.probe_until
        and bounds(what, hold.probe_until, LONGEST_PROBE + PROBE_MARGIN),
    )


@dataclass(frozen=True, slots=True)
class LatestPushes:
    """The end of the last success, and how many pushes have failed since."""

    succeeded_at: datetime | None = None
    failures: int = 0

    def followed_by(self, seen: Observation) -> LatestPushes:
        if seen.outcome in EVENTS_FAULT:
            return self
        if seen.outcome is Outcome.DELIVERED:
            return LatestPushes(succeeded_at=seen.ended_at)
        return replace(self, failures=self.failures + 1)

    def is_isolated(self, seen: Observation, terms: DeliveryTerms) -> bool:
        """
        Tell whether the failure *seen*, which is not counted yet, is isolated.

        It is if it is the first since a success that ended less than its probation ago.
        Source: "An event subscription is put into probation … if event deliveries to that
        destination start failing" ("Delivery and retry", 2023-03-01); one failure is no start.
        """
        probation = terms.profile.probation.get(seen.outcome)
        if probation is None or seen.is_probe or self.failures or self.succeeded_at is None:
            return False
        return seen.ended_at - self.succeeded_at < terms.scaled(probation)
