"""One deployment on ports in memory: publishing, delivering and the timers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pushgrid.testing.composition import InMemoryApp
from pushgrid.testing.memory import (
    FakeClock,
    HeldPusher,
    MemoryPort,
    MemoryStore,
    ScriptedPusher,
    off_loop,
    request,
)
from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.app import BackgroundWork
from shared.arm.namespace_codec import to_absent_topic
from shared.clock import Clock, Deadline
from shared.delivery.messages.message import MessagePart, OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.delivery.pace import Limit
from shared.engine.delivering.attempt_history import AttemptHistory
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.endpoint import Endpoint
from shared.engine.delivering.endpoints import Endpoints
from shared.engine.delivering.judge import PartJudge
from shared.engine.ports import OffLoop, Pusher, Queue, StoreTraits, Table
from shared.events.topic import Topic
from shared.http import HttpAnswer, HttpRequest
from shared.settings import AttemptLogging
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey
from tests.builders import a_subscription, a_topic, encode

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def is_idle(endpoints: Endpoints) -> bool:
    """Tell whether nothing is in lines, under way, unpacked or waits for a push."""
    return not list(endpoints.leftovers())


def known(endpoints: Endpoints) -> Collection[Endpoint]:
    """Return the endpoints that a process remembers."""
    return endpoints.known.values()


class Directory(MemoryPort):
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

    async def ready(self, name: str) -> None:
        pass  # Nothing takes a read.

    def forget(self, table: Table, partition: str, name: str) -> None:
        pass  # A test says what is known.

    def forget_all(self) -> None:
        pass  # likewise

    @request
    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name.lower())

    @request
    def absent(self, name: str) -> Topic:
        namespace, _, _ = name.partition(".")
        return to_absent_topic(name, self.namespaces.get(namespace))

    def knows(self, name: str, most: int) -> bool:
        weights = [each.filter.weight for each in self.known.values() if each.topic == name.lower()]
        return name.lower() in self.topics and sum(weights) <= most

    @request
    def of_topic(self, topic: str) -> Sequence[EventSubscription]:
        return [each for key, each in self.known.items() if key.topic == topic.lower()]

    @request
    def subscription(self, key: SubscriptionKey) -> EventSubscription | None:
        return self.known.get(key.folded)

    @request
    def read_uncached(self, key: SubscriptionKey) -> EventSubscription | None:
        return self.stored.get(key.folded)


def begin_background(app: InMemoryApp) -> None:
    """Begin what an app does by itself: it goes on as time passes."""
    for work in app.background:
        app.loop.create_task(_go_on(work))


async def _go_on(work: BackgroundWork) -> None:
    is_done = False
    while not is_done:
        is_done = await off_loop(work.call)
        await asyncio.sleep(work.period.total_seconds())


class Deployment(InMemoryApp):
    """Everything wired, as `shared/app.py` does it; the topic ``orders``, no subscription."""

    pusher: ScriptedPusher

    def __init__(self, traits: StoreTraits = AZURE_STORAGE) -> None:
        clock = FakeClock()
        super().__init__(ScriptedPusher(clock), clock, MemoryStore(clock, off_loop, traits))
        self.directory: Directory = Directory()
        self.directory.topics["orders"] = a_topic()

    def tell_time(self, by: Clock | None = None) -> None:
        """Let storage tell the time with each answer, by a clock of its own that never jumps."""
        clock = by or self.clock.elsewhere

        def answered() -> None:
            self.watched.storage_answered(clock.now().replace(microsecond=0), 0.0)

        for port in (self.queues, self.resources, self.dead_letters, self.directory):
            port.answered = answered

    def start_at(self, jump: timedelta) -> None:
        """Start the host anew, whose clock is wrong by that much from now on."""
        self.clock.jump(jump)
        self.watched.__init__(  # type: ignore[misc]  # all use cases have this one
            self.clock.now, self.clock.monotonic, self.clock_records.record, awaits_storage=True
        )
        self.deliver = self.new_process()

    def new_process(self, judge: PartJudge | None = None, limit: Limit | None = None) -> Deliver:
        """Return the delivering of a process that knows nothing yet."""
        self.judge = judge or self.deliver.judge
        endpoints = self._endpoints()
        endpoints.limit = limit or endpoints.limit
        return replace(self.deliver, judge=self.judge, endpoints=endpoints, in_hand=self._in_hand())

    def push_with(self, pusher: Pusher) -> None:
        """Push with another sender."""
        self.push = replace(self.push, pusher=pusher)

    def set_terms(self, **choices: Any) -> None:
        """Change the deployment's terms."""
        judge = self.deliver.judge
        terms = replace(judge.terms, **choices)
        self.deliver = replace(self.deliver, judge=replace(judge, terms=terms))

    def hold(self, *marks: str) -> HeldPusher:
        """Hold pushes with one of these texts in their URL or body."""
        held = HeldPusher(self.pusher)
        held.hold(*marks)
        self.push_with(held)
        return held

    def limit_pushes(self, to: int) -> None:
        """Let so many pushes to each endpoint be under way, by a process that knows nothing."""
        self.deliver = self.new_process(limit=Limit(to, most=to))

    def keep_attempts(
        self,
        logging: AttemptLogging,
        off_loop: OffLoop = off_loop,
        *,
        logs_successes: bool = True,
    ) -> None:
        """Keep those attempts from now on."""
        history = AttemptHistory(
            log=self.attempts,
            off_loop=off_loop,
            tasks=self.history.tasks,
            logging=logging,
            clock=self.clock,
            logs_successes=logs_successes,
        )
        self.deliver = replace(
            self.deliver, recorder=replace(self.deliver.recorder, history=history)
        )

    def subscribe(self, **overrides: Any) -> EventSubscription:
        subscription = a_subscription(**overrides)
        self.directory.add(subscription)
        return subscription

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer a publish request."""
        return self.loop.run(self.publish.run(request))

    def run(self, message: MessagePart) -> None:
        """Deliver what the host hands over."""
        (text,) = encode(message)
        self.work(text)

    def begin(self, message: MessagePart | str) -> asyncio.Task[None]:
        """Begin to deliver a message, and go on with others as far as no time has to pass."""
        text = message if isinstance(message, str) else "".join(encode(message))
        task = self.loop.create_task(self.deliver.run(text.encode(), Queue.DELIVERIES))
        self.loop.settle()
        return task

    def put(self, queue: Queue, *messages: MessagePart) -> None:
        """Put messages on a queue, visible at once."""
        for message in messages:
            for text in encode(message):
                self.queues.put(queue, text)

    def on(self, queue: Queue) -> list[MessagePart]:
        """Read what lies on a queue, hidden or not."""
        return [part for _, part in self.parts(queue)]

    def parts(self, queue: Queue) -> list[tuple[timedelta, MessagePart]]:
        """Read the parts of all messages on a queue, and how long each is hidden."""
        texts, waits = self.queues.texts(queue), self.queues.waits(queue)
        messages = zip(waits, map(decode, texts), strict=True)
        not_deliveries = OtherVersion | ReplayStep
        return [
            (wait, part)
            for wait, parts in messages
            if not isinstance(parts, not_deliveries)
            for part in parts
        ]

    def waiting(self, queue: Queue) -> list[tuple[timedelta, list[int]]]:
        """Say for each part how long it is hidden, and which events it has."""
        return [
            (wait, [each.position for each in part.deliveries]) for wait, part in self.parts(queue)
        ]

    def all_stored(self) -> dict[Queue, int]:
        return {queue: len(texts) for queue in Queue if (texts := self.queues.texts(queue))}

    def in_a_minute(self) -> Deadline:
        return Deadline(timedelta(minutes=1), self.clock.monotonic)


Logged = Callable[[str], list[dict[str, Any]]]
