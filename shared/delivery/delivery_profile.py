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
    """
    When attempts 2, 3, 4 … are due.

    The *steps* are waits after the failed attempt or, with *by_age*, ages of the event; *tail*
    repeats after them (``None``: there is no further attempt). *jitter_share* of a wait, at most
    *jitter_limit*, is added at random.
    """

    steps: tuple[timedelta, ...]
    tail: timedelta | None
    by_age: bool = False
    jitter_share: float = 0.1
    jitter_limit: timedelta = timedelta(seconds=3)

    def wait_after(
        self, attempts: int, age: timedelta, time_to_live: timedelta
    ) -> tuple[timedelta, str]:
        """Return the wait after attempt number *attempts*, and the name of its step."""
        beyond = attempts - len(self.steps)
        if self.tail is None and beyond > 0:
            # The event waits for its expiry, which is checked when it is due (contract §3.3, 15).
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
    What a status means for one kind of endpoint.

    *minimum_delay* is keyed by HTTP status, *other_minimum_delay* holds for any other answer. An
    attempt without an answer has no minimum; it is never retried if its failure is in
    *final_failures*.
    """

    never_retried: frozenset[int] = frozenset()
    final_failures: frozenset[Failure] = frozenset()
    minimum_delay: Mapping[int, timedelta] = field(default_factory=dict)
    other_minimum_delay: timedelta = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    How long and how often an event is tried: default, least and most.

    The three are equal where nothing can be chosen. *attempts* ``None``: they have no limit.
    """

    time_to_live: tuple[timedelta, timedelta, timedelta]
    attempts: tuple[int, int, int] | None


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
    """
    One edition of the rules.

    *edition* is the page and its date. *final_only_with_dead_letter*: what is never retried
    is retried all the same where no dead-letter destination is configured. *dead_letter_delay*
    lies between the last attempt and the blob, *dead_letter_keep* is how long a failing write of
    the blob is tried. *late_answers_for* is how long after the send a success still counts.
    *probation* is how long nothing is sent to a subscription after each outcome.
    """

    name: str
    edition: str
    acknowledgement_timeout: timedelta
    success_codes: frozenset[int]
    schedule: RetrySchedule
    limits: Limits
    endpoints: Mapping[EndpointType, EndpointRules]
    features: frozenset[Feature]
    final_only_with_dead_letter: bool = False
    dead_letter_delay: timedelta = timedelta(minutes=5)
    dead_letter_keep: timedelta = timedelta(hours=4)
    late_answers_for: timedelta | None = None
    probation: Mapping[Outcome, timedelta] = field(default_factory=dict)
    delayed_delivery: DelayedDelivery | None = None

    @property
    def ever_holds(self) -> bool:
        """Whether a failure can hold other events."""
        return bool(self.probation or self.delayed_delivery)
