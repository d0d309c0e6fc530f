"""Answers the status routes: health for everybody, metrics and topics for whoever may read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shared.arm.arm_json import answer, error_answer
from shared.clock import Clock, ClockNote, timestamp
from shared.delivery.furthest import SKEW
from shared.engine.keeping.clock_records import clock_notes
from shared.engine.operations.activity import Activities, without_answers
from shared.engine.operations.operator_authorization import Operators
from shared.engine.operations.prometheus import CONTENT_TYPE, Gauge, exposition
from shared.engine.operations.subscription_state import HoldState
from shared.engine.ports import POISON_QUEUES, STATE, CountReader, Queue, Store, Table
from shared.engine.ports.measures import StoreMeasure
from shared.engine.replaying.job import ReplayJob
from shared.engine.timers.preparation import first_start
from shared.engine.timers.queue_watch import QueueState, states
from shared.engine.timers.timer_runs import LastRun, last_runs
from shared.errors import AppError, MethodNotAllowed, NotFound, StorageUnavailable
from shared.http import HttpAnswer, HttpRequest

# Anybody may ask for the health, and the store's own sentence may name hosts.
_CAUSE = ": /readyz of the server, and its log, say why"
# A message that waits longer, or a timer that has not run for longer, is late.
LATE = timedelta(minutes=15)
_SECOND = timedelta(seconds=1)


class Snapshot(NamedTuple):
    """Queues, timers and what was wrong with clocks, as storage shows them at one moment."""

    at: datetime
    queues: Mapping[Queue, QueueState]
    timers: Mapping[str, LastRun]
    clock: Sequence[ClockNote]
    began_at: datetime | None  # the deployment, if that is known
    is_trusted: bool = True  # the clock of *at*


def take_snapshot(store: Store, clock: Clock) -> Snapshot | None:
    """Read queues and timers; ``None`` if storage does not answer."""
    try:
        rows = store.documents.list(Table.TOPICS, STATE)
        now, notes = clock.now(), clock_notes(rows)
        began_at = first_start(rows)
        return Snapshot(now, states(store, now), last_runs(rows), notes, began_at, clock.is_trusted)
    except StorageUnavailable:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """
    Answers ``status/health``, ``status/metrics`` and ``status/topics``; the health is open to all.
    """

    counts: CountReader
    measures: Callable[[], Sequence[StoreMeasure]]
    fault: Callable[[], str]  # `Store.fault`
    snapshot: Callable[[], Snapshot | None]  # may be some seconds old, since anybody may ask
    held: Callable[[], Sequence[HoldState]]
    topics: Callable[[Activities], Mapping[str, Any]]  # `topic_states` of now with these activities
    activities: Callable[[], Activities]
    replays: Callable[[], Sequence[ReplayJob]]  # the latest jobs
    operators: Operators
    timers: Collection[str]  # those that are to run
    unset_schedules: Mapping[str, str]  # timers that don't run, each with the missing setting

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Answer *request*; every error becomes an answer, too."""
        try:
            found = self._answer(request)
        except AppError as error:
            found = error_answer(error)
        return replace(found, headers={**found.headers, "Cache-Control": "no-store"})

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        what = request.params.get("what", "").strip("/").lower()
        if what not in {"health", "metrics", "topics"}:
            raise NotFound(
                "Unknown path. There are status/health, status/metrics and status/topics."
            )
        if request.method != "GET":
            raise MethodNotAllowed
        if what == "health":
            return _health(self.snapshot(), self.fault(), self.timers, self.unset_schedules)
        operator = self.operators.authorize(request.headers.get("authorization"))
        seen = self.activities()
        if what == "topics":
            shown = without_answers(seen) if operator.is_reader else seen
            access = "read" if operator.is_reader else "full"
            measured = {each.name: each.value for each in self.measures()}
            return answer(200, {"access": access, "store": measured, **self.topics(shown)})
        totals = self.counts.totals()
        gauges = [*_gauges(self.snapshot(), self.fault()), _held(self.held()), *_waiting(seen)]
        gauges += _measured(self.measures())
        text = exposition(totals, [*gauges, _ended(self.replays())])
        return HttpAnswer(status=200, headers={"Content-Type": CONTENT_TYPE}, body=text.encode())


def _health(
    snapshot: Snapshot | None,
    fault: str,
    timers: Collection[str],
    unset_schedules: Mapping[str, str],
) -> HttpAnswer:
    """
    Answer 503 only if storage is unreachable, or for *fault* stores nothing.

    Lateness is reported, and no reason to restart.
    """
    if snapshot is None:
        why = [f"storage does not answer{_CAUSE if fault else ''}"]
        return answer(503, {"status": "unhealthy", "reasons": why, "storage": "unreachable"})
    found = _reasons(snapshot, timers, unset_schedules)
    document: dict[str, Any] = {
        "status": "unhealthy" if fault else "degraded" if found else "healthy",
        "reasons": [f"nothing can be stored{_CAUSE}", *found] if fault else found,
        "storage": "refusing" if fault else "reachable",
        "checkedAt": timestamp(snapshot.at),
        "queues": {
            queue.value: {"messages": state.messages, "oldestSeconds": _seconds(state.oldest)}
            for queue, state in snapshot.queues.items()
        },
        "timers": {
            timer: {"lastRun": timestamp(run.at), "failed": list(run.failed)}
            for timer, run in sorted(snapshot.timers.items())
        },
        "clock": [each._asdict() | {"at": timestamp(each.at)} for each in snapshot.clock],
    }
    return answer(503 if fault else 200, document)


def _reasons(
    snapshot: Snapshot, timers: Collection[str], unset_schedules: Mapping[str, str]
) -> list[str]:
    """Return why the deployment is degraded, if it is."""
    late = [
        f"the oldest message in {queue} is late"
        for queue, state in snapshot.queues.items()
        if queue not in POISON_QUEUES and (state.oldest or timedelta()) > LATE
    ]
    poison = [
        f"{queue} holds messages"
        for queue, state in snapshot.queues.items()
        if queue in POISON_QUEUES and state.messages
    ]
    runs = sorted(snapshot.timers.items())
    unset = [
        f"the timer {timer} does not run: {name} is not set"
        for timer, name in sorted(unset_schedules.items())
    ]
    silent = [f"the timer {timer} is late" for timer, run in runs if snapshot.at - run.at > LATE]
    # A start that is still to come is wrong, so it mutes nothing.
    if snapshot.began_at and not -SKEW <= snapshot.at - snapshot.began_at <= LATE:
        missing = set(timers) - set(snapshot.timers) - set(unset_schedules)
        silent += [f"the timer {timer} is late: it has never run" for timer in sorted(missing)]
    ahead = [
        f"the timer {timer} has run {(run.at - snapshot.at) // _SECOND} s ahead of the clock"
        for timer, run in runs
        if run.at - snapshot.at > SKEW
    ]
    failed = [f"the timer {timer} has failed" for timer, run in runs if run.failed]
    clock = [
        each.reason
        for each in snapshot.clock
        if each.is_recent(snapshot.at, is_trusted=snapshot.is_trusted)
    ]
    return late + poison + unset + silent + ahead + failed + clock


def _gauges(snapshot: Snapshot | None, fault: str) -> list[Gauge]:
    queues = snapshot.queues if snapshot else {}
    timers = snapshot.timers if snapshot else {}
    ages: dict[tuple[str, ...], float] = {
        (q.value,): _seconds(s.oldest) or 0.0 for q, s in queues.items()
    }
    return [
        Gauge(
            "storage_up",
            "Whether storage answers, and stores.",
            ("service",),
            {("queue",): float(snapshot is not None and not fault)},
        ),
        Gauge(
            "queue_messages",
            "Messages in a queue, hidden ones included.",
            ("queue",),
            {(queue.value,): float(state.messages) for queue, state in queues.items()},
        ),
        Gauge(
            "queue_oldest_message_age_seconds",
            "Seconds since the oldest visible message of a queue was due.",
            ("queue",),
            ages,
        ),
        Gauge(
            "timer_last_run_timestamp_seconds",
            "Unix time at which the last run of a timer ended.",
            ("timer",),
            {(timer,): run.at.timestamp() for timer, run in timers.items()},
        ),
    ]


def _held(found: Sequence[HoldState]) -> Gauge:
    return Gauge(
        "endpoint_held",
        "1 while nothing is sent to the endpoint of an event subscription.",
        ("topic", "subscription", "reason"),
        {
            (each.subscription.topic, each.subscription.name, reason): 1.0
            for each in found
            for reason in each.reasons
        },
    )


def _ended(jobs: Iterable[ReplayJob]) -> Gauge:
    last: dict[tuple[str, ...], float] = {}
    for each in jobs:
        if each.ended_at and not each.is_dry_run:
            state = (each.state.value,)
            last[state] = max(last.get(state, 0.0), each.ended_at.timestamp())
    return Gauge(
        "replay_last_end_timestamp_seconds",
        "Unix time at which the latest replay of dead letters ended in a state.",
        ("state",),
        last,
    )


def _measured(found: Iterable[StoreMeasure]) -> list[Gauge]:
    return [
        Gauge(f"store_{name}", text, (), {(): value}, "counter" if only_rises else "gauge")
        for name, text, value, only_rises in found
    ]


def _waiting(found: Activities) -> list[Gauge]:
    seen = {key: each for key, each in found.items() if each.waiting}
    given_up = {key: each for key, each in found.items() if each.awaiting_blob}
    labels = ("topic", "subscription")
    return [
        Gauge(
            "waiting_events",
            "Events that wait for an event subscription.",
            labels,
            {key: float(each.waiting) for key, each in seen.items()},
        ),
        Gauge(
            "oldest_seen_event_age_seconds",
            "Age of the oldest waiting event that a process saw within ten minutes.",
            labels,
            {key: _seconds(each.oldest_seen) or 0.0 for key, each in seen.items()},
        ),
        Gauge(
            "events_awaiting_blob",
            "Events that are given up, until they are dead-lettered or dropped.",
            labels,
            {key: float(each.awaiting_blob) for key, each in given_up.items()},
        ),
    ]


def _seconds(age: timedelta | None) -> float | None:
    return None if age is None else round(age.total_seconds(), 1)
