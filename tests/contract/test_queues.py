"""Sender, Receiver and QueueWatch: what a queue promises, on each store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

import pytest

from pushgrid.testing.memory import DrivenLoop, FakeClock
from shared.engine.ports import PutResult, Queue, Queues, Receipt, Received, Store
from shared.errors import StorageUnavailable, Unstorable
from tests.senders import THREADS, OnLoopSender

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


class Subject:
    """An implementation of all three ports, and how time passes for it."""

    def __init__(self, sender: OnLoopSender, queues: Queues, clock: FakeClock | None) -> None:
        self.sender = sender
        self.queues = queues
        self._clock = clock

    def wait(self, wait: timedelta) -> None:
        if self._clock:
            self._clock.advance(wait)
        else:
            time.sleep(wait.total_seconds())

    def texts(self, queue: Queue = Queue.WAITING) -> list[str]:
        return sorted(message.text for message in self.queues.receive(queue, HOUR))


def receipts(puts: Sequence[PutResult]) -> list[Receipt]:
    """Return the receipts of puts, all of which succeeded."""
    return [each for each in puts if not isinstance(each, StorageUnavailable)]


@pytest.fixture
def subject(stored: Store, clock: FakeClock, kind: str) -> Subject:
    run = DrivenLoop(clock).run if kind == "memory" else THREADS.on_loop
    is_driven = kind in ("memory", "sqlite", "postgresql")
    return Subject(OnLoopSender(stored.sender, run), stored.queues, clock if is_driven else None)


def test_a_queue_is_made_by_its_first_put_alone(subject: Subject) -> None:
    missing = subject.texts()
    subject.sender.put_all(Queue.WAITING, [])
    subject.sender.put(Queue.WAITING, "one")

    assert (missing, subject.texts(Queue.DEADLETTERS), subject.texts()) == ([], [], ["one"])


def test_put_all_stores_every_text(subject: Subject) -> None:
    texts = [f"{number:02}" for number in range(20)]

    puts = subject.sender.put_all(Queue.WAITING, texts)

    assert subject.texts() == texts
    assert len(receipts(puts)) == 20


def test_put_all_hides_what_it_stores(subject: Subject) -> None:
    """Each put has its own receipt, in the order of the texts."""
    puts = subject.sender.put_all(Queue.WAITING, ["one", "two", "three"], HOUR)

    assert subject.texts() == []
    one, _, three = receipts(puts)
    assert subject.sender.take_back(Queue.WAITING, one)
    assert subject.sender.replace(Queue.WAITING, three, "3", timedelta())
    assert subject.texts() == ["3"]


def test_put_all_tells_of_each_text_what_came_of_it(subject: Subject, stored: Store) -> None:
    """A message that is too large is refused, and no outage."""
    large = "x" * (stored.traits.message_size + 16 * 1024 + 1)
    puts = subject.sender.put_all(Queue.WAITING, ["one", large, "two"])

    assert [isinstance(each, Unstorable) for each in puts] == [False, True, False]
    assert subject.texts() == ["one", "two"]


def test_a_store_takes_messages_as_large_as_it_says(subject: Subject, stored: Store) -> None:
    """And the headers of a dead letter beside that."""
    text = "x" * (stored.traits.message_size + 16 * 1024)

    subject.sender.put(Queue.WAITING, text)

    assert subject.texts(Queue.WAITING) == [text]


def test_at_most_32_are_received_at_once(subject: Subject) -> None:
    subject.sender.put_all(Queue.WAITING, ["x"] * 33)

    assert [len(subject.texts()), len(subject.texts())] == [32, 1]


@pytest.mark.parametrize(
    "text", ["", '{"a":"<b>&\'\\"</b>"}', " a  b\t\n", "x" * 48 * 1024, '"' * 48 * 1024]
)
def test_a_text_comes_back_as_it_was(subject: Subject, text: str) -> None:
    subject.sender.put(Queue.WAITING, text)

    assert subject.texts() == [text]


@pytest.mark.parametrize(
    ("wait", "texts"),
    [(-HOUR, ["x"]), (timedelta(milliseconds=10), []), (timedelta(days=8), [])],
    ids=["in the past", "rounded up to a second", "longer than a queue can"],
)
def test_a_wait_is_what_a_queue_can_do(subject: Subject, wait: timedelta, texts: list[str]) -> None:
    subject.sender.put(Queue.WAITING, "x", visible_in=wait)

    assert subject.texts() == texts


def test_after_its_time_a_message_is_visible(subject: Subject) -> None:
    """All at once, since time passes on Azurite: what was put, received, hidden, replaced."""
    queues, sender = subject.queues, subject.sender
    sender.put_all(Queue.WAITING, ["received", "deleted", "hidden for longer"])
    for message in queues.receive(Queue.WAITING, SECOND):
        if message.text == "deleted":
            queues.delete(Queue.WAITING, message)
        elif message.text == "hidden for longer":
            queues.hide(Queue.WAITING, message, HOUR)
    sender.put(Queue.WAITING, "put", visible_in=SECOND)
    taken = sender.put(Queue.WAITING, "taken back", visible_in=SECOND)
    replaced = sender.put(Queue.WAITING, "three", visible_in=HOUR)
    replaced = sender.replace(Queue.WAITING, replaced, "two", HOUR) or replaced

    assert sender.take_back(Queue.WAITING, taken)
    assert sender.replace(Queue.WAITING, replaced, "replaced", SECOND)
    assert subject.texts() == []
    subject.wait(SECOND * 1.3)
    assert subject.texts() == ["put", "received", "replaced"]


def test_what_somebody_else_has_received_is_left_alone(subject: Subject) -> None:
    subject.sender.put(Queue.WAITING, "one")
    (mine,) = subject.queues.receive(Queue.WAITING, HOUR)
    subject.queues.hide(Queue.WAITING, mine, timedelta())
    (theirs,) = subject.queues.receive(Queue.WAITING, HOUR)

    subject.queues.delete(Queue.WAITING, mine)
    subject.queues.hide(Queue.WAITING, mine, timedelta())
    taken_early = subject.texts()
    subject.queues.hide(Queue.WAITING, theirs, timedelta())

    assert (taken_early, subject.texts()) == ([], ["one"])


def test_what_is_gone_can_be_deleted_and_hidden(subject: Subject) -> None:
    unknown = Received(
        text="one", receipt=Receipt("b3c1f7b4-0000-4000-8000-000000000000", "AgAAAAMAAAAA")
    )
    subject.queues.delete(Queue.WAITING, unknown)  # there is not even a queue
    subject.queues.hide(Queue.WAITING, unknown, timedelta())
    subject.sender.put(Queue.WAITING, "one")
    (message,) = subject.queues.receive(Queue.WAITING, HOUR)

    for _ in range(2):
        subject.queues.delete(Queue.WAITING, message)
    subject.queues.hide(Queue.WAITING, message, timedelta())

    assert subject.texts() == []


def test_what_is_visible_can_be_taken_back(subject: Subject) -> None:
    receipt = subject.sender.put(Queue.WAITING, "now")
    subject.sender.put(Queue.WAITING, "other")

    assert subject.sender.take_back(Queue.WAITING, receipt)
    assert subject.texts() == ["other"]


def test_what_was_replaced_has_a_receipt_of_its_own(subject: Subject) -> None:
    old = subject.sender.put(Queue.WAITING, "two", visible_in=HOUR)
    new = subject.sender.replace(Queue.WAITING, old, "one", HOUR)

    assert new
    assert not subject.sender.take_back(Queue.WAITING, old)
    assert subject.sender.take_back(Queue.WAITING, new)
    assert not subject.sender.take_back(Queue.WAITING, new)


def test_a_receipt_is_good_until_somebody_receives_the_message(subject: Subject) -> None:
    """Also when it was hidden, and is visible again: it may have been handled meanwhile."""
    receipt = subject.sender.put(Queue.WAITING, "one")
    (message,) = subject.queues.receive(Queue.WAITING, SECOND)

    while_held = subject.sender.replace(Queue.WAITING, receipt, "other", HOUR)
    subject.queues.hide(Queue.WAITING, message, timedelta())

    assert while_held is None
    assert subject.sender.replace(Queue.WAITING, receipt, "other", HOUR) is None
    assert not subject.sender.take_back(Queue.WAITING, receipt)
    assert subject.texts() == ["one"]


def test_a_receipt_of_what_was_deleted_is_good_for_nothing(subject: Subject) -> None:
    receipt = subject.sender.put(Queue.WAITING, "one")
    (message,) = subject.queues.receive(Queue.WAITING, HOUR)
    subject.queues.delete(Queue.WAITING, message)

    assert not subject.sender.take_back(Queue.WAITING, receipt)
    assert subject.sender.replace(Queue.WAITING, receipt, "other", HOUR) is None
    assert subject.texts() == []


def test_looking_leaves_a_queue_as_it_is(subject: Subject) -> None:
    """Hidden messages are counted and not seen, received ones as well."""
    queues, sender = subject.queues, subject.sender
    for text in ("one", "two"):
        sender.put(Queue.WAITING, text)
    sender.put(Queue.WAITING, "hidden", HOUR)

    for _ in range(2):
        backlog = queues.peek(Queue.WAITING)
        assert backlog
        assert (backlog.messages, sorted(seen.text for seen in backlog.visible)) == (
            3,
            ["one", "two"],
        )
        assert all(seen.stored_at.tzinfo for seen in backlog.visible)
    assert subject.texts() == ["one", "two"]
    assert queues.peek(Queue.WAITING) == (3, [])


def test_a_queue_that_is_missing_is_made_once(subject: Subject, kind: str) -> None:
    queues, missing = subject.queues, subject.queues.peek(Queue.WAITING)

    queues.make(Queue.WAITING)
    empty = queues.peek(Queue.WAITING)
    subject.sender.put(Queue.WAITING, "one")
    queues.make(Queue.WAITING)

    # In a table of messages none can be missing.
    assert (missing, empty) == ((0, []) if kind in ("sqlite", "postgresql") else None, (0, []))
    assert subject.texts() == ["one"]


def test_a_message_knows_how_often_it_was_received(subject: Subject) -> None:
    subject.sender.put(Queue.WAITING, "one")
    counts = []
    for _ in range(2):
        (received,) = subject.queues.receive(Queue.WAITING, SECOND)
        counts.append(received.count)
        subject.wait(SECOND * 1.5)

    assert counts == [1, 2]


def test_a_received_message_can_be_replaced(subject: Subject) -> None:
    subject.sender.put(Queue.WAITING, "one")
    (received,) = subject.queues.receive(Queue.WAITING, HOUR)

    renewed = subject.sender.replace(Queue.WAITING, received.receipt, "two", timedelta())
    stale = subject.sender.replace(Queue.WAITING, received.receipt, "three", HOUR)

    assert (renewed is not None, stale) == (True, None)
    assert subject.texts() == ["two"]
