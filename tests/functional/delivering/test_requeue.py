"""What is stored for later: on which queue, in how many messages, and what failing puts cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START, FakeClock, MemoryQueues, MemorySender
from shared.delivery.messages.message import MessagePart
from shared.engine.delivering.requeue import Queued, Requeue
from shared.engine.ports import PutResult, Queue
from shared.errors import StorageUnavailable, Unstorable
from tests.builders import a_delivery, a_message, noise
from tests.unit.delivery.messages.wire import read_parts
from tests.without_loop import at_once, finished

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
TOO_LARGE = "x" * (64 * 1024 + 1)


class Failing(MemoryQueues):
    """Queues that refuse puts; *asked* has the number of texts of each call."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.asked: list[int] = []

    def put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta = timedelta()
    ) -> Sequence[PutResult]:
        self.asked.append(len(texts))
        return super().put_all(queue, texts, visible_in)


class Store:
    """A requeue over queues in memory, on a clock that its sleeps move."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.queues = Failing(self.clock)
        self.slept: list[float] = []
        self.requeue = Requeue(
            sender=MemorySender(self.queues, at_once), clock=self.clock, sleep=self._sleep
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds * SECOND)

    def at_due(self, *parts: MessagePart, **options: timedelta) -> list[Queued]:
        return finished(self.requeue.at_due(*parts, **options))

    def on(self, queue: Queue) -> list[MessagePart]:
        return [part for text in self.queues.texts(queue) for part in read_parts(text)]


@pytest.fixture
def store() -> Store:
    return Store()


def of_three(**members: object) -> list[MessagePart]:
    """Return parts of three subscriptions, of two deliveries each."""
    deliveries = [a_delivery(0), a_delivery(1)]
    return [a_message(deliveries, subscription=name, **members) for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("wait", "queue", "hidden"),
    [
        (-MINUTE, Queue.RETRIES, timedelta()),
        (10 * MINUTE, Queue.RETRIES, 10 * MINUTE),
        (11 * MINUTE, Queue.WAITING, 10 * MINUTE),
    ],
    ids=["late", "short", "long"],
)
def test_what_is_due_together_is_one_message(
    store: Store, wait: timedelta, queue: Queue, hidden: timedelta
) -> None:
    parts = of_three(due=START + wait)

    (queued,) = store.at_due(*parts)

    assert store.queues.waits(queue) == [hidden]
    assert sorted(each.subscription for each in store.on(queue)) == ["a", "b", "c"]
    assert (queued.queue, queued.visible_at) == (queue, START + hidden)
    assert {part.subscription for part in queued.parts} == {"a", "b", "c"}


def test_what_does_not_fit_is_put_side_by_side(store: Store) -> None:
    large = [a_delivery(number, text=noise(30_000, number)) for number in range(3)]

    stored = store.at_due(a_message(large, due=START + MINUTE))

    assert store.queues.asked == [3]
    assert [len(queued.parts[0].deliveries) for queued in stored] == [1, 1, 1]


def test_only_a_put_that_failed_is_repeated(store: Store) -> None:
    large = [a_delivery(number, text=noise(30_000, number)) for number in range(3)]
    store.queues.fail_next("put", times=2)

    stored = store.at_due(a_message(large, due=START + MINUTE))

    assert store.queues.asked == [3, 2]
    assert (len(stored), len(store.on(Queue.RETRIES))) == (3, 3)
    assert [each.key for queued in stored for each in queued.parts[0].deliveries] == [
        each.key for each in large
    ]
    assert store.slept == [0.2]


def test_puts_are_repeated_for_two_minutes_and_no_longer(store: Store) -> None:
    store.queues.fail_next("put", times=1000)

    with pytest.raises(StorageUnavailable):
        store.at_due(a_message())

    assert 2 * MINUTE <= store.clock.now() - START <= 2 * MINUTE + 10 * SECOND
    assert store.slept[:7] == [0.2, 0.5, 1, 2, 5, 10, 10]


def test_without_patience_a_put_is_tried_once(store: Store) -> None:
    store.queues.fail_next("put")

    with pytest.raises(StorageUnavailable):
        store.at_due(a_message(), patience=timedelta())

    assert (store.queues.asked, store.slept) == ([1], [])


def test_what_is_too_large_is_refused_at_once(store: Store) -> None:
    with pytest.raises(Unstorable):
        finished(store.requeue.put(Queue.RETRIES, TOO_LARGE, timedelta()))

    assert store.slept == []


def test_what_was_received_is_not_changed(store: Store) -> None:
    (queued,) = store.at_due(*of_three())
    store.queues.receive(Queue.RETRIES, MINUTE)

    assert finished(store.requeue.shrink(queued, queued.parts[:1])) is None
    assert finished(store.requeue.shrink(queued, [])) is None
    assert len(store.on(Queue.RETRIES)) == 3
