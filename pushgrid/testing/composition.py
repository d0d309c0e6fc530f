"""Composes the use cases on ports in memory, on an event loop whose time a test moves."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from pushgrid.testing.memory import (
    Counted,
    DrivenLoop,
    DrivenThreads,
    FakeClock,
    InlineCommits,
    MemoryAttempts,
    MemoryCounts,
    MemoryDeadLetters,
    MemoryPayloads,
    MemoryQueues,
    MemoryResources,
    MemorySender,
    off_loop,
)
from shared.adapters.watched_clock import WatchedClock
from shared.delivery.messages.message import ReplayStep
from shared.delivery.pace import Limit
from shared.delivery.profiles import PROFILES
from shared.engine.caching.health_table import OffLoopHealth, TableHealth
from shared.engine.delivering.attempt_recorder import AttemptHistory
from shared.engine.delivering.budget import Budget, Places
from shared.engine.delivering.clock_records import ClockRecords
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.delivering.endpoint_registry import Endpoints
from shared.engine.delivering.in_flight import InFlightRequest
from shared.engine.delivering.parts import PartJudge
from shared.engine.delivering.poison_records import PoisonRecords
from shared.engine.delivering.processes import Processes
from shared.engine.delivering.push import Push
from shared.engine.delivering.requeue import BlockingRequeue, Requeue
from shared.engine.delivering.results import Attempted, Shortage
from shared.engine.operations.activity import read_activities
from shared.engine.operations.operator_authorization import Operators
from shared.engine.operations.status import Status, take_snapshot
from shared.engine.operations.subscription_state import held_subscriptions
from shared.engine.operations.topic_states import topic_states
from shared.engine.operations.trouble_notices import TroubleNotices
from shared.engine.ports import Pusher, Queue, ReserveConnection, SubscriptionReader, TopicReader
from shared.engine.publishing.commit import Commit
from shared.engine.publishing.publish import Publish, PublisherAuthorization
from shared.engine.publishing.publish_report import PublishReport
from shared.engine.replaying.jobs import ReplayJobs
from shared.engine.replaying.step import RunSteps
from shared.engine.timers.dead_letters import WriteDeadLetters
from shared.engine.timers.housekeeping import Housekeeping
from shared.engine.timers.poison import ReturnPoison
from shared.engine.timers.receiving import Intake
from shared.engine.timers.source_events import BlobNotices, SourceEvents
from shared.engine.timers.wake import Wake
from shared.events.event import Event
from shared.events.topic import DEPLOYMENT, Topic
from shared.settings import AttemptLogging

ACCOUNT = "testing"


class Directory(TopicReader, SubscriptionReader, Protocol):
    """Reads topics and subscriptions."""


class InMemoryApp:
    """Everything but the management API, wired as `shared/wiring` does it."""

    admin_key = "the-test-s-admin-key"
    reader_key = "the-test-s-reader-key"

    def __init__(
        self,
        directory: Directory,
        pusher: Pusher,
        clock: FakeClock,
        resources: MemoryResources,
    ) -> None:
        self.pusher = pusher
        self.reserve_connection: ReserveConnection = _always
        self.clock = clock
        self.loop = DrivenLoop(clock)
        self.threads = DrivenThreads(self.loop)
        self.resources = resources
        self.queues = MemoryQueues(clock.elsewhere)
        self.payloads = MemoryPayloads(clock)
        self.dead_letters = MemoryDeadLetters(clock)
        self.attempts = MemoryAttempts()
        self.metrics = Counted()
        self.counts = MemoryCounts()
        self.slept: list[float] = []
        spans, self._processes = itertools.count(1), itertools.count(1)
        self.clock_records = ClockRecords(
            state=resources, monotonic=clock.monotonic, begin=lambda work: work()
        )
        watched = WatchedClock(clock.now, clock.monotonic, self.clock_records.jumped)
        self.watched = watched
        for port in (self.queues, resources, self.dead_letters):
            port.answered = lambda: watched.storage_answered(None, 0.0)  # without a time
        self.push = Push(pusher=pusher, clock=watched, new_span_id=lambda: f"{next(spans):016x}")
        terms = DeploymentTerms(topics=directory, default_profile="latest", time_scale=1)
        sender = MemorySender(self.queues, off_loop)
        requeue = Requeue(sender=sender, clock=watched, sleep=self._sleep)
        blocking_requeue = BlockingRequeue(requeue=requeue, on_loop=self.loop.run)
        records = PoisonRecords(store=self.dead_letters, clock=watched, new_id=self.new_id)
        self.replays = ReplayJobs(
            rows=self.resources,
            sender=sender,
            on_loop=self.loop.run,
            clock=watched,
            backoff=lambda _: None,
        )
        self.intake = Intake(
            receiver=self.queues,
            records=records,
            payloads=self.payloads,
            clock=watched,
            monotonic=clock.monotonic,
            clock_records=self.clock_records,
            end_replay=self.replays.fail,
            metrics=self.metrics,
        )
        report = PublishReport(metrics=self.metrics, clock=watched)
        commit = Commit(
            payloads=self.payloads, sender=sender, off_loop=off_loop, report=report.published
        )
        self.publish = Publish(
            authorization=PublisherAuthorization(clock=watched),
            topics=directory,
            subscriptions=directory,
            commits=InlineCommits(commit.run),
            clock=watched,
            new_id=self.new_id,
            report=report,
            payloads_kept_for=terms.payloads_kept_for,
            off_loop=off_loop,
        )
        parts = PartJudge(
            subscriptions=directory,
            payloads=self.payloads,
            terms=terms,
            records=records,
            metrics=self.metrics,
            clock=watched,
        )
        self.deliver = Deliver(
            parts=parts,
            endpoints=self._endpoints(parts),
            places=_places(),
            requeue=requeue,
            history=AttemptHistory(
                log=self.attempts,
                off_loop=off_loop,
                logging=AttemptLogging.FAILURES,
                clock=watched,
            ),
            clock=watched,
            jitter=self.draw_jitter,
            metrics=self.metrics,
            clock_records=self.clock_records,
            off_loop=off_loop,
            replay=self._replay,
        )
        self.replay = RunSteps(
            jobs=self.replays,
            rows=self.resources,
            payloads=self.payloads,
            reader=self.dead_letters,
            topics=directory,
            subscriptions=directory,
            requeue=blocking_requeue,
            terms=terms,
            clock=watched,
            monotonic=clock.monotonic,
        )
        self.wake = Wake(intake=self.intake, requeue=blocking_requeue, clock=watched)
        source_events = SourceEvents(topics=directory, subscriptions=directory, accept=self._accept)
        self.write_dead_letters = WriteDeadLetters(
            intake=self.intake,
            receiver=self.queues,
            sender=sender,
            on_loop=self.loop.run,
            payloads=self.payloads,
            store=self.dead_letters,
            clock=watched,
            new_id=self.new_id,
            metrics=self.metrics,
            notices=BlobNotices(
                source_events=source_events,
                new_id=self.new_id,
                account=ACCOUNT,
            ),
        )
        self.trouble_notices = TroubleNotices(
            source_events=source_events,
            subscriptions=directory,
            counts=self.counts,
            attempts=self.attempts,
            health=TableHealth(resources, self.threads),
            replays=self.replays.list,
            state=resources,
            clock=watched,
        )
        self.return_poison = ReturnPoison(
            intake=self.intake, receiver=self.queues, requeue=blocking_requeue
        )
        self.housekeeping = Housekeeping(
            payloads=self.payloads,
            attempts=self.attempts,
            counts=self.counts,
            state=self.resources,
            clock=watched,
        )

        self.operators = Operators(admin_key=self.admin_key, reader_key=self.reader_key)
        self.status = Status(
            counts=self.counts,
            snapshot=lambda: take_snapshot(self.queues, resources, watched),
            held=lambda: held_subscriptions(resources, watched.now()),
            topics=lambda seen: topic_states(resources, watched.now(), (ACCOUNT, DEPLOYMENT), seen),
            activities=lambda: read_activities(
                self.counts,
                self.attempts,
                resources,
                watched.now(),
                PROFILES["latest"].dead_letter_delay,
            ),
            replays=self.replays.list,
            operators=self.operators,
            unset_schedules={},
        )

    def new_id(self) -> str:
        """Return a new UUID."""
        return str(uuid.uuid4())

    def draw_jitter(self) -> float:
        """Return the jitter of a retry, in [0, 1)."""
        return 0.0

    def new_process(self, parts: PartJudge | None = None, limit: Limit | None = None) -> Deliver:
        """Return the delivering of a process that knows nothing yet."""
        parts = parts or self.deliver.parts
        endpoints = self._endpoints(parts, limit)
        return replace(self.deliver, parts=parts, endpoints=endpoints, places=_places())

    def work(self, text: str, queue: Queue = Queue.DELIVERIES, by: Deliver | None = None) -> None:
        """Deliver a message to the end, and finish what it leaves to be done at once."""
        self.loop.run((by or self.deliver).run(text.encode(), queue))
        self.loop.settle()

    def sleep(self, seconds: float) -> None:
        """Let the clock's time pass, as a thread that sleeps would."""
        self.loop.run(self._sleep(seconds))

    def _endpoints(self, parts: PartJudge, limit: Limit | None = None) -> Endpoints:
        return Endpoints(
            budget=Budget(),
            push=self._push,
            reserve_connection=self._reserve_connection,
            as_cached=partial(parts.as_cached, off_loop=off_loop),
            clock=self.watched,
            limit=limit or Limit(),
            processes=Processes(
                rows=self.resources,
                clock=self.watched,
                off_loop=off_loop,
                name=f"p{next(self._processes)}",
            ),
            health=OffLoopHealth(TableHealth(self.resources, self.threads), off_loop),
            metrics=self.metrics,
            clock_records=self.clock_records,
        )

    async def _push(self, request: InFlightRequest) -> Attempted | Shortage:
        return await self.push(request)

    def _reserve_connection(self, url: str, again: Callable[[], None]) -> bool:
        return self.reserve_connection(url, again)

    def _accept(self, topic: Topic, events: Sequence[Event], publish_id: str) -> None:
        self.loop.run(self.publish.accept(topic, events, publish_id))

    def _replay(self, step: ReplayStep) -> None:
        self.replay.run(step)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(seconds)


def _places() -> dict[Queue, Places]:
    return {queue: Places() for queue in (Queue.DELIVERIES, Queue.RETRIES)}


def _always(_url: str, _again: Callable[[], None]) -> bool:
    """Implement the port ``ReserveConnection``: in memory there are no connections."""
    return True
