"""Defines a delivery: one event on its way to one subscription, with its counters."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.events.trace_context import TraceContext, trace_of_event
from shared.subscriptions.subscription import SubscriptionKey

_REPLAY_PREFIX = "replay-"
_SYSTEM_IDS_KEPT = 4096
_SYSTEM_IDS = uuid.UUID("6f1c0d0e-6a53-4a3e-9a55-6c3a4b5f7d21")
_FREE_BITS, _VERSION_5 = ~(0xF000_C000 << 48), 0x5000_8000 << 48  # RFC 9562, 5.5


class LastAttempt(NamedTuple):
    """The last attempt of a delivery; before its first, the hold that kept it from one, if any."""

    outcome: Outcome
    status: int | None
    at: datetime

    @property
    def cause(self) -> str:
        """Its outcome in two words: ``503 Busy``, ``TimedOut``."""
        return f"{self.status} {self.outcome}" if self.status else str(self.outcome)


class Origin(NamedTuple):
    """The publish request that an event came with."""

    publish_id: str
    published_at: datetime
    payload: str | None  # the blob that holds the request's events, if they are kept in one
    first_line: int = 0  # of the request's events there: requests can share a blob
    trace: TraceContext | None = None  # the request's; an event can have another one


DeliveryKey = tuple[Origin, int]  # identifies a delivery within its subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event on its way to one subscription."""

    origin: Origin
    position: int  # among the events of its publish request, from 0
    text: str | None  # its JSON, or ``None`` until it is read from the payload blob
    attempts: int = 0  # all pushes so far
    last: LastAttempt | None = None

    @property
    def key(self) -> DeliveryKey:
        return self.origin, self.position

    @property
    def event(self) -> str:
        """Its event's JSON, where that was read."""
        return self.text or ""

    @property
    def inline(self) -> str | None:
        """The JSON that its message carries; ``None``: it stays in the payload blob."""
        return None if self.origin.payload else self.text

    @property
    def trace(self) -> TraceContext | None:
        """The trace of its event, or else that of its publish request."""
        return trace_of_event(self.event) or self.origin.trace

    @property
    def trace_id(self) -> str | None:
        trace = self.trace
        return trace.trace_id if trace else None

    def tried(self, outcome: DeliveryOutcome, at: datetime) -> Delivery:
        """Return the delivery with one more attempt, which began *at*."""
        last = LastAttempt(outcome.outcome, outcome.status, at)
        return Delivery(
            origin=self.origin,
            position=self.position,
            text=self.text,
            attempts=self.attempts + 1,
            last=last,
        )

    @property
    def is_new(self) -> bool:
        """Whether it was never pushed: a counted probation is no push."""
        in_probation = self.last is not None and self.last.outcome is Outcome.PROBATION
        return self.attempts == 0 or (self.attempts == 1 and in_probation)

    def was_tried_with(self, other: Delivery) -> bool:
        """Tell whether both were in the same request at their last attempt."""
        return self.attempts > 0 and (self.attempts, self.last) == (other.attempts, other.last)

    def system_id(self, key: SubscriptionKey) -> str:
        """Return the id of this delivery to a subscription, equal at every attempt."""
        topic, subscription = key.folded
        return _system_id(f"{self.origin.publish_id}/{self.position}/{topic}/{subscription}")


@lru_cache(_SYSTEM_IDS_KEPT)  # a push and its record ask for the same
def _system_id(name: str) -> str:
    # `uuid.uuid5`, in a third of its time: each of very many has one.
    digest = hashlib.sha1(_SYSTEM_IDS.bytes + name.encode(), usedforsecurity=False).digest()
    bits = int.from_bytes(digest[:16]) & _FREE_BITS | _VERSION_5
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


Batch = Sequence[Delivery]  # the events of one request, at least one


def traces_of(batch: Batch) -> list[TraceContext]:
    """Return the different traces of a batch's events, in their order."""
    return list(dict.fromkeys(filter(None, (each.trace for each in batch))))


def common_trace(batch: Batch) -> TraceContext | None:
    """Return the trace that all events of a batch are in, if there is one."""
    trace = batch[0].trace
    if trace is None or any(each.trace_id != trace.trace_id for each in batch[1:]):
        return None
    return trace


def replay_publish_id(job: str, batch: int) -> str:
    """Return the publish id of what a batch of the replay *job* puts."""
    return f"{_REPLAY_PREFIX}{job}-{batch}"


def replay_job(publish_id: str) -> str | None:
    """Return the replay job that has put what was published under this id, if one has."""
    if not publish_id.startswith(_REPLAY_PREFIX):
        return None
    return publish_id.removeprefix(_REPLAY_PREFIX).rpartition("-")[0]
