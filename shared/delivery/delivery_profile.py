"""Defines the columns of the delivery profiles; ``profiles.py`` has the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from shared.clock import in_words
from shared.delivery.outcome import Outcome
from shared.http import Failure
from shared.subscriptions.destination import EndpointType

_MAX_DOUBLINGS = 20  # of the first hold: the longest comes sooner


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySchedule:
    """When attempts 2, 3, 4 … are due."""

    steps: tuple[timedelta, ...]  # waits after a failed attempt, or ages of the event
    tail: timedelta | None  # repeats after the steps; ``None``: there is no further attempt
    by_age: bool = False  # the steps are ages
    jitter_share: float = 0.1  # of a wait, that is added at random
    jitter_limit: timedelta = timedelta(seconds=3)

    def wait_after(
        self, attempts: int, age: timedelta, time_to_live: timedelta
    ) -> tuple[timedelta, str]:
        """Return the wait after attempt number *attempts*, and the name of its step."""
        beyond = attempts - len(self.steps)
        if self.tail is None and beyond > 0:
            # The event waits for its expiry, which is checked when it is due (contract §3.3).
            return time_to_live - age, "the schedule is exhausted; waiting for expiry"
        step = self.steps[attempts - 1] if beyond <= 0 else self.tail or timedelta()
        if not self.by_age:
            name = f" step {attempts}: " if beyond <= 0 else ": every "
            return step, f"schedule{name}{in_words(step)}"
        due = step if beyond <= 0 else self.steps[-1] + beyond * step
        return max(due - age, timedelta()), f"schedule: {in_words(due)} after publish"


class Feature(StrEnum):
    """Features that some editions lack."""

    DEAD_LETTERS = "dead letters"
    RETRY_POLICY = "retry policy"
    OUTPUT_BATCHING = "output batching"
    CUSTOM_HEADERS = "custom headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRules:
    """
    What a status means for one kind of endpoint. An attempt without an answer has no minimum delay.
    """

    never_retried: frozenset[int] = frozenset()  # statuses
    # Of attempts without an answer, which are never retried.
    final_failures: frozenset[Failure] = frozenset()
    minimum_delay: Mapping[int, timedelta] = field(default_factory=dict)  # by status
    other_minimum_delay: timedelta = timedelta()  # after any other status


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    How long and how often an event is tried: default, least and most; equal where nothing is
    chosen.
    """

    time_to_live: tuple[timedelta, timedelta, timedelta]
    attempts: tuple[int, int, int] | None  # ``None``: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedDelivery:
    """When so many first attempts fail in a row, everything is held, longer each time."""

    failures: int
    first_hold: timedelta
    longest_hold: timedelta

    def hold_after(self, delays: int) -> timedelta:
        """Return how long the hold lasts that follows so many in a row."""
        doublings: int = 2 ** min(delays, _MAX_DOUBLINGS)
        return min(self.first_hold * doublings, self.longest_hold)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryProfile:
    """One edition of the rules."""

    name: str
    edition: str  # the page and its date
    acknowledgement_timeout: timedelta
    success_codes: frozenset[int]
    schedule: RetrySchedule
    limits: Limits
    endpoints: Mapping[EndpointType, EndpointRules]
    features: frozenset[Feature]
    # Without a destination, what is never retried is retried all the same.
    final_only_with_dead_letter: bool = False
    dead_letter_delay: timedelta = timedelta(minutes=5)  # between the last attempt and the blob
    # How long a failing write of the blob is tried.
    dead_letter_keep: timedelta = timedelta(hours=4)
    late_answers_for: timedelta | None = None  # after the send, a success still counts
    # How long nothing is sent after an outcome.
    probation: Mapping[Outcome, timedelta] = field(default_factory=dict)
    delayed_delivery: DelayedDelivery | None = None

    @property
    def ever_holds(self) -> bool:
        """Whether a failure can hold other events."""
        return bool(self.probation or self.delayed_delivery)
