"""The published editions of the delivery rules: a row each, every value with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryProfile:
    """
    One edition of the rules, for webhooks.

    *schedule* holds the waits after failed attempts 1, 2, 3 …; *tail* is every wait after those.
    *minimum_delay* is keyed by HTTP status, *other_minimum_delay* holds for any other answer; an
    attempt without an answer has no minimum. *jitter_share* of a wait, at most *jitter_limit*, is
    added at random. *dead_letter_delay* lies between the last attempt and the blob;
    *dead_letter_keep* is how long a failing write of that blob is tried.
    """

    name: str
    acknowledgement_timeout: timedelta
    success_codes: frozenset[int]
    schedule: tuple[timedelta, ...]
    tail: timedelta
    jitter_share: float
    jitter_limit: timedelta
    minimum_delay: Mapping[int, timedelta]
    other_minimum_delay: timedelta
    never_retried: frozenset[int]
    dead_letter_delay: timedelta
    dead_letter_keep: timedelta

    def scaled(self, time_scale: float) -> DeliveryProfile:
        """Return the same rules with every wait divided, never the network timeout."""
        return replace(
            self,
            schedule=tuple(step / time_scale for step in self.schedule),
            tail=self.tail / time_scale,
            jitter_limit=self.jitter_limit / time_scale,
            minimum_delay={code: wait / time_scale for code, wait in self.minimum_delay.items()},
            other_minimum_delay=self.other_minimum_delay / time_scale,
            dead_letter_delay=self.dead_letter_delay / time_scale,
            dead_letter_keep=self.dead_letter_keep / time_scale,
        )


_LATEST = DeliveryProfile(
    name="latest",
    # "Event Grid waits 30 seconds for a response after delivering a message."
    acknowledgement_timeout=30 * SECOND,
    # "Event Grid considers only the following HTTP response codes as successful deliveries."
    success_codes=frozenset({200, 201, 202, 203, 204}),
    # "Retry schedule": each number is the wait after the previous failure (contract §3.4).
    schedule=(
        10 * SECOND,
        30 * SECOND,
        1 * MINUTE,
        5 * MINUTE,
        10 * MINUTE,
        30 * MINUTE,
        1 * HOUR,
        3 * HOUR,
        6 * HOUR,
    ),
    tail=12 * HOUR,
    # "adds a small randomization to all retry steps": contract §3.2, 0-10 %, capped (design §2).
    jitter_share=0.1,
    jitter_limit=3 * SECOND,
    # "Failure codes" and their retry behaviour; 404 for webhooks as contract §3.3, 2.
    minimum_delay={404: 5 * MINUTE, 408: 2 * MINUTE, 503: 30 * SECOND},
    other_minimum_delay=10 * SECOND,
    # "types of endpoints for which retry doesn't happen": webhook, with 403 (edition of 2026-02).
    never_retried=frozenset({400, 401, 403, 413}),
    # "There is a five-minute delay between the last attempt … and when it is delivered to the
    # dead-letter location."
    dead_letter_delay=5 * MINUTE,
    # "If the dead-letter location is unavailable for four hours, the event is dropped."
    dead_letter_keep=4 * HOUR,
)

PROFILES: Mapping[str, DeliveryProfile] = {row.name: row for row in (_LATEST,)}
