"""Computes the messages, runs and attempts that a month's workload causes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import timedelta

from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.delivery.delivery_profile import DeliveryProfile
from shared.delivery.forecast import forecast
from shared.delivery.messages import packing
from shared.delivery.policy import default_terms
from shared.delivery.profiles import PROFILES
from shared.engine.publishing.group_commit import LIMIT

_FAILING = "500"  # an answer without a minimum delay or a probation of its own
_CHUNK = 64 * 1024  # bytes of an event that Event Grid counts as one operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Events of a month. An attempt fails whatever came of the others."""

    events: int
    fanout: int  # subscriptions of each event
    batch: int  # events published at a time
    size: int  # bytes of an event
    failure_rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """All attempts with the same number."""

    messages: float
    attempts: float  # that these messages make
    waited_long: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a workload causes in a month."""

    workload: Workload
    requests: int
    commits: int  # requests that are stored together
    parts: float  # the subscriptions' shares of first messages
    waves: tuple[Wave, ...]  # first attempts, second ones, and so on
    dead_messages: float  # these carry the events that are given up
    dead_letters: float
    parked: bool  # events are too large for messages

    @property
    def deliveries(self) -> int:
        return self.workload.events * self.workload.fanout

    @property
    def attempts(self) -> float:
        return sum(each.attempts for each in self.waves)

    @property
    def failed_runs(self) -> float:
        """Runs with a failure: each is followed by a retry message or by dead letters."""
        return sum(each.messages for each in self.waves[1:]) + self.dead_messages

    @property
    def event_grid_operations(self) -> float:
        """
        What Event Grid counts: events in, and every delivery attempt, in chunks of 64 KB each.

        Subject and type filters, batching and dead letters add nothing to that.
        """
        chunks = math.ceil(self.workload.size / _CHUNK)
        return chunks * (self.workload.events + self.attempts)


def work_of(workload: Workload, stored_byte: float, *, at_a_time: int = 1) -> Work:
    """
    Compute the work; *stored_byte* is how many bytes of a message one byte of an event takes.

    Requests that arrive *at_a_time* are stored together, as far as one commit takes them.

    Several subscriptions share messages. What fails of a message is one message again, which is
    needed if any of its deliveries fails; dead letters are a message for each subscription.
    """
    requests = math.ceil(workload.events / workload.batch)
    together = min(at_a_time, requests, _most_together(workload))
    commits, committed = math.ceil(requests / together), workload.batch * together
    capacity = _capacity(workload.size * stored_byte)
    group = capacity or packing.MAX_MESSAGE_EVENTS
    parts = commits * math.ceil(committed / group) * workload.fanout
    deliveries = workload.events * workload.fanout
    rate, waits = workload.failure_rate, _waits(PROFILES["latest"])

    def with_one_left(groups: float, share: float) -> float:
        return groups * (1.0 - math.pow(1.0 - share, deliveries / groups)) if groups else 0.0

    messages = commits * _first_messages(committed, workload.fanout, group)
    waves = [Wave(messages=messages, attempts=deliveries, waited_long=False)]
    waves += [
        Wave(
            messages=with_one_left(messages, rate**number),
            attempts=deliveries * rate**number,
            waited_long=not AZURE_STORAGE.may_hide(wait, is_held=False),
        )
        for number, wait in enumerate(waits, start=1)
    ]
    ended = rate ** len(waves)
    return Work(
        workload=workload,
        requests=requests,
        commits=commits,
        parts=parts,
        waves=tuple(waves),
        dead_messages=with_one_left(parts, ended),
        dead_letters=deliveries * ended,
        parked=capacity == 0,
    )


def _first_messages(events: int, fanout: int, group: int) -> int:
    """Return the messages of one commit, if at most *group* of its events fit into one."""
    full, rest = divmod(events, group)
    groups = [group] * full + ([rest] if rest else [])
    return sum(math.ceil(fanout / max(1, packing.MAX_MESSAGE_EVENTS // size)) for size in groups)


def _most_together(workload: Workload) -> int:
    """Return how many requests one commit takes; a larger one is a commit of its own."""
    deliveries = LIMIT.deliveries // (workload.batch * workload.fanout)
    size = LIMIT.size // (workload.batch * workload.size)
    return max(1, min(LIMIT.requests, deliveries, size))


def _capacity(stored: float) -> int:
    """Return how many events of so many stored bytes fit into a message; 0: not even one."""
    room = AZURE_STORAGE.message_size - packing.HEADER_WIDTH - packing.ORIGIN_WIDTH
    return min(packing.MAX_MESSAGE_EVENTS, int(room / (stored + packing.EVENT_WIDTH)))


def _waits(profile: DeliveryProfile) -> list[timedelta]:
    """Return the waits between the attempts of an event that always fails."""
    times = [each.at for each in forecast([_FAILING], default_terms(profile)).attempts]
    return [later - earlier for earlier, later in itertools.pairwise(times)]
