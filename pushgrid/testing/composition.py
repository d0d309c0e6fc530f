"""Composes the use cases on ports in memory: one thread, and a clock that stands still."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import Any, Protocol, TypeVar

from pushgrid.testing.memory import (
    Counted,
    FakeClock,
    InlineCommits,
    InlineThreads,
    MemoryAttempts,
    MemoryCounts,
    MemoryDeadLetters,
    MemoryPayloads,
    MemoryQueues,
    MemoryResources,
    MemoryTokens,
)
from shared.adapters.off_loop import OffLoopPayloads, OffLoopSender
from shared.adapters.storage.health_table import TableHealth
from shared.clock import WatchedClock
from shared.delivery.messages.message import ReplayStep
from shared.delivery.slots.slots import Slots
from shared.engine.delivering.attempt_history import AttemptHistory
from shared.engine.delivering.clock_records import ClockRecords
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.delivering.gates import Gates
from shared.engine.delivering.parts import Parts
from shared.engine.delivering.poison_records import PoisonRecords
from shared.engine.delivering.push import Push
from shared.engine.delivering.requeue import BlockingRequeue, Requeue
from shared.engine.delivering.shared_health import SharedHealth
from shared.engine.ports import Pusher, SubscriptionReader, TopicReader
from shared.engine.publishing.commit import Commit
from shared.engine.publishing.publish import Publish
from shared.engine.publishing.publisher_authorization import PublisherAuthorization
from shared.engine.replaying.jobs import ReplayJobs
from shared.engine.replaying.marks import Marks
from shared.engine.replaying.putting import PutEvents
from shared.engine.replaying.step import ReplaySteps
from shared.engine.timers.dead_letters import WriteDeadLetters
from shared.engine.timers.housekeeping import Housekeeping
from shared.engine.timers.poison import ReturnPoison
from shared.engine.timers.receiving import Intake
from shared.engine.timers.wake import Wake
from shared.settings import AttemptLogging

SECOND = timedelta(seconds=1)
T = TypeVar("T")


class Directory(TopicReader, SubscriptionReader, Protocol):
    """Reads topics and subscriptions."""


@dataclass(frozen=True, kw_only=True)
class Chance:
    """The choices that an app leaves to chance: new ids, and the jitter of retries in [0, 1)."""

    new_id: Callable[[], str]
    jitter: Callable[[], float]


class InMemoryApp:
    """Everything but the management API, wired as `shared/wiring` does it."""

    def __init__(
        self,
        directory: Directory,
        pusher: Pusher,
        chance: Chance,
        clock: FakeClock,
        resources: MemoryResources,
    ) -> None:
        self.pusher = pusher
        self.clock = clock
        self.resources = resources
        self.queues = MemoryQueues(clock.elsewhere)
        self.payloads = MemoryPayloads(clock)
        self.dead_letters = MemoryDeadLetters(clock)
        self.attempts = MemoryAttempts()
        self.metrics = Counted()
        self.counts = MemoryCounts()
        self.threads = InlineThreads(clock)
        self.tokens = MemoryTokens()
        self.slept: list[float] = []
        self.spans = itertools.count(1)
        self.clock_records = ClockRecords(
            state=resources, monotonic=clock.monotonic, begin=lambda work: work()
        )
        watched = WatchedClock(clock.now, clock.monotonic, self.clock_records.jumped)
        self.watched = watched
        terms = DeploymentTerms(topics=directory, default_profile="latest", time_scale=1)
        sender = OffLoopSender(self.queues, at_once)
        requeue = Requeue(sender=sender, clock=watched, sleep=self.pause)
        blocking_requeue = BlockingRequeue(requeue=requeue, run=finished)
        payloads = OffLoopPayloads(self.payloads, at_once)
        records = PoisonRecords(store=self.dead_letters, clock=watched, new_id=chance.new_id)
        self.intake = Intake(
            receiver=self.queues,
            records=records,
            payloads=self.payloads,
            clock=watched,
            clock_records=self.clock_records,
        )
        self.publish = Publish(
            authorization=PublisherAuthorization(clock=watched),
            topics=directory,
            subscriptions=directory,
            commits=InlineCommits(Commit(payloads=payloads, sender=sender, off_loop=at_once).run),
            clock=watched,
            new_id=chance.new_id,
            metrics=self.metrics,
            payloads_kept_for=terms.payloads_kept_for,
            off_loop=at_once,
        )
        self.deliver = Deliver(
            parts=Parts(
                subscriptions=directory,
                payloads=self.payloads,
                terms=terms,
                requeue=requeue,
                records=records,
                metrics=self.metrics,
                clock=watched,
            ),
            gates=self.new_gates(),
            requeue=requeue,
            history=AttemptHistory(
                log=self.attempts, logging=AttemptLogging.FAILURES, clock=watched
            ),
            clock=watched,
            jitter=chance.jitter,
            new_lock=Lock,
            tokens=self.tokens,
            metrics=self.metrics,
            clock_records=self.clock_records,
            replay=self._replay,
        )
        self.replays = ReplayJobs(
            rows=self.resources, sender=self.queues, clock=watched, backoff=lambda _: None
        )
        self.replay = ReplaySteps(
            jobs=self.replays,
            marks=Marks(rows=self.resources),
            events=PutEvents(
                payloads=self.payloads, requeue=blocking_requeue, terms=terms, clock=watched
            ),
            reader=self.dead_letters,
            topics=directory,
            subscriptions=directory,
            requeue=blocking_requeue,
            clock=watched,
        )
        self.wake = Wake(
            intake=self.intake, receiver=self.queues, requeue=blocking_requeue, clock=watched
        )
        self.write_dead_letters = WriteDeadLetters(
            intake=self.intake,
            receiver=self.queues,
            sender=self.queues,
            payloads=self.payloads,
            store=self.dead_letters,
            clock=watched,
            new_id=chance.new_id,
            metrics=self.metrics,
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
            clock_records=self.clock_records,
        )

    def new_gates(self) -> Gates:
        """Return a process's gates, which know nothing yet."""
        lock = Lock()
        store = TableHealth(self.resources, self.clock.monotonic)
        return Gates(
            health=SharedHealth(store, self.watched, lock, self.metrics, self.clock_records),
            slots=Slots(self.clock.monotonic),
            threads=self.threads,
            push=self.push_through(self.pusher),
            clock=self.watched,
            monotonic=self.clock.monotonic,
            lock=lock,
        )

    def push_through(self, pusher: Pusher) -> Push:
        """Return the stage that pushes through *pusher*."""
        return Push(
            pusher=pusher, clock=self.watched, new_span_id=lambda: f"{next(self.spans):016x}"
        )

    def _replay(self, step: ReplayStep) -> None:
        self.replay.run(step)

    async def pause(self, seconds: float) -> None:
        """Do as `sleep`, as a coroutine that never waits."""
        self.sleep(seconds)

    def sleep(self, seconds: float) -> None:
        """Let the clock's time pass, as a thread that sleeps would."""
        self.slept.append(seconds)
        self.clock.advance(seconds * SECOND)


def finished(running: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop."""
    try:
        running.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    running.close()
    raise RuntimeError("the coroutine waits")


async def at_once(call: Callable[[], T]) -> T:
    """Do as the port ``OffLoop``, on the caller's thread."""
    return call()
