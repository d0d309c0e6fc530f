"""One deployment on ports in memory: publishing, delivering and the timers."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Event, Lock
from typing import Any, TypeVar

from shared.adapters.storage.health_table import TableHealth
from shared.arm.namespace_codec import to_absent_topic
from shared.delivery.messages.message import DeliveryMessage, NewerMessage, encode
from shared.delivery.messages.message_reader import decode
from shared.delivery.slots.slots import Slots
from shared.engine.delivering.attempt_history import AttemptHistory
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.delivering.gates import Gates
from shared.engine.delivering.parts import Parts
from shared.engine.delivering.poison_records import PoisonRecords
from shared.engine.delivering.push import Push
from shared.engine.delivering.requeue import Requeue
from shared.engine.delivering.shared_health import SharedHealth
from shared.engine.ports import Pusher, Queue
from shared.engine.publishing.commit import Commit
from shared.engine.publishing.publish import Publish
from shared.engine.publishing.publisher_authorization import PublisherAuthorization
from shared.engine.timers.dead_letters import WriteDeadLetters
from shared.engine.timers.housekeeping import Housekeeping
from shared.engine.timers.poison import ReturnPoison
from shared.engine.timers.receiving import Intake
from shared.engine.timers.wake import Wake
from shared.events.topic import Topic
from shared.http import HttpAnswer, HttpRequest
from shared.settings import AttemptLogging
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey
from tests.builders import a_subscription, a_topic
from tests.fakes import (
    Counted,
    FakeClock,
    Faulty,
    InlineCommits,
    InlineThreads,
    MemoryAttempts,
    MemoryCounts,
    MemoryDeadLetters,
    MemoryPayloads,
    MemoryQueues,
    MemoryResources,
    MemoryTokens,
    ScriptedPusher,
)

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
T = TypeVar("T")


class Directory(Faulty):
    """TopicReader and SubscriptionReader: *known* is what the cache says, *stored* what is so."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, Topic] = {}
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.known: dict[SubscriptionKey, EventSubscription] = {}
        self.stored: dict[SubscriptionKey, EventSubscription] = {}

    def add(self, *subscriptions: EventSubscription) -> None:
        for each in subscriptions:
            self.known[each.key.folded] = each
            self.change(each)

    def change(self, subscription: EventSubscription) -> None:
        """Store it; the cache doesn't know yet."""
        self.stored[subscription.key.folded] = subscription

    def topic(self, name: str) -> Topic | None:
        with self._at_work("topic"):
            return self.topics.get(name.lower())

    def absent(self, name: str) -> Topic:
        namespace, _, _ = name.partition(".")
        with self._at_work("absent"):
            return to_absent_topic(name, self.namespaces.get(namespace))

    def knows(self, name: str, most: int) -> bool:
        weights = [each.filter.weight for each in self.known.values() if each.topic == name.lower()]
        return name.lower() in self.topics and sum(weights) <= most

    def of_topic(self, topic: str) -> Sequence[EventSubscription]:
        with self._at_work("of_topic"):
            return [each for key, each in self.known.items() if key.topic == topic.lower()]

    def subscription(self, key: SubscriptionKey) -> EventSubscription | None:
        with self._at_work("subscription"):
            return self.known.get(key.folded)

    def read_uncached(self, key: SubscriptionKey) -> EventSubscription | None:
        with self._at_work("read_uncached"):
            return self.stored.get(key.folded)


class Deployment:
    """Everything wired, as `shared/wiring` does it; the topic ``orders``, no subscription."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.directory = Directory()
        self.directory.topics["orders"] = a_topic()
        self.queues = MemoryQueues(self.clock)
        self.payloads = MemoryPayloads(self.clock)
        self.dead_letters = MemoryDeadLetters()
        self.resources = MemoryResources()
        self.attempts = MemoryAttempts()
        self.metrics = Counted()
        self.counts = MemoryCounts()
        self.pusher = ScriptedPusher(self.clock)
        self.threads = InlineThreads(self.clock)
        self.tokens = MemoryTokens()
        self.invocation_ended = Event()
        self.slept: list[float] = []
        self.jitter = 0.0
        self.spans = itertools.count(1)
        terms = DeploymentTerms(topics=self.directory, default_profile="latest", time_scale=1)
        requeue = Requeue(sender=self.queues, clock=self.clock, sleep=self._sleep)
        records = PoisonRecords(store=self.dead_letters, clock=self.clock, new_id=_new_id)
        self.intake = Intake(
            receiver=self.queues, records=records, payloads=self.payloads, clock=self.clock
        )
        self.publish = Publish(
            authorization=PublisherAuthorization(clock=self.clock),
            topics=self.directory,
            subscriptions=self.directory,
            commits=InlineCommits(Commit(payloads=self.payloads, sender=self.queues).run),
            clock=self.clock,
            new_id=_new_id,
            metrics=self.metrics,
            payloads_kept_for=terms.payloads_kept_for,
            in_thread=_at_once,
        )
        self.deliver = Deliver(
            parts=Parts(
                subscriptions=self.directory,
                payloads=self.payloads,
                terms=terms,
                requeue=requeue,
                records=records,
                metrics=self.metrics,
                clock=self.clock,
            ),
            gates=self.new_gates(),
            requeue=requeue,
            history=AttemptHistory(
                log=self.attempts, logging=AttemptLogging.FAILURES, clock=self.clock
            ),
            clock=self.clock,
            jitter=lambda: self.jitter,
            new_lock=Lock,
            tokens=self.tokens,
            metrics=self.metrics,
        )
        self.wake = Wake(
            intake=self.intake, receiver=self.queues, requeue=requeue, clock=self.clock
        )
        self.write_dead_letters = WriteDeadLetters(
            intake=self.intake,
            receiver=self.queues,
            sender=self.queues,
            payloads=self.payloads,
            store=self.dead_letters,
            clock=self.clock,
            new_id=_new_id,
            metrics=self.metrics,
        )
        self.return_poison = ReturnPoison(
            intake=self.intake,
            receiver=self.queues,
            requeue=requeue,
        )
        self.housekeeping = Housekeeping(
            payloads=self.payloads,
            attempts=self.attempts,
            counts=self.counts,
            state=self.resources,
            clock=self.clock,
        )

    def new_gates(self) -> Gates:
        """Give a process's gates, which know nothing yet."""
        lock = Lock()
        store = TableHealth(self.resources, self.clock.monotonic)
        return Gates(
            health=SharedHealth(store, self.clock, lock),
            slots=Slots(self.clock.monotonic),
            threads=self.threads,
            push=self._push(self.pusher),
            clock=self.clock,
            monotonic=self.clock.monotonic,
            lock=lock,
        )

    def push_with(self, pusher: Pusher) -> None:
        """Push with another sender."""
        self.deliver.gates.push = self._push(pusher)

    def _push(self, pusher: Pusher) -> Push:
        return Push(pusher=pusher, clock=self.clock, new_span_id=lambda: f"{next(self.spans):016x}")

    def set_terms(self, **choices: Any) -> None:
        """Change the deployment's terms."""
        parts = self.deliver.parts
        terms = replace(parts.terms, **choices)
        self.deliver = replace(self.deliver, parts=replace(parts, terms=terms))

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds * SECOND)

    def subscribe(self, **overrides: Any) -> EventSubscription:
        subscription = a_subscription(**overrides)
        self.directory.add(subscription)
        return subscription

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer a publish request."""
        return finished(self.publish.run(request))

    def run(self, message: DeliveryMessage) -> None:
        """Deliver what the host hands over."""
        (text,) = encode(message)
        self.deliver.run(text.encode(), self.invocation_ended.set)

    def put(self, queue: Queue, *messages: DeliveryMessage) -> None:
        """Put messages on a queue, visible at once."""
        for message in messages:
            for text in encode(message):
                self.queues.put(queue, text)

    def on(self, queue: Queue) -> list[DeliveryMessage]:
        """Read what lies on a queue, hidden or not."""
        messages = [decode(text) for text in self.queues.texts(queue)]
        return [part for parts in messages if not isinstance(parts, NewerMessage) for part in parts]

    def waiting(self, queue: Queue) -> list[tuple[timedelta, list[int]]]:
        """Say for each message how long it is hidden, and which events it has."""
        return [
            (wait, [each.position for each in message.deliveries])
            for wait, message in zip(self.queues.waits(queue), self.on(queue), strict=True)
        ]

    def all_stored(self) -> dict[Queue, int]:
        return {queue: len(texts) for queue in Queue if (texts := self.queues.texts(queue))}

    def in_a_minute(self) -> datetime:
        return self.clock.now() + MINUTE


def finished(running: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop."""
    try:
        running.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    running.close()
    raise AssertionError("the coroutine waits")


async def _at_once(call: Callable[[], T]) -> T:
    return call()


def _new_id() -> str:
    return str(uuid.uuid4())


Logged = Callable[[str], list[dict[str, Any]]]
