"""Defines the columns of the delivery profiles; ``profiles.py`` has the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from shared.delivery.outcome import Outcome
from shared.delivery.retry_schedule import RetrySchedule
from shared.http import Failure
from shared.subscriptions.destination import EndpointType

_MAX_DOUBLINGS = 20  # of the first hold: the longest comes sooner


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
