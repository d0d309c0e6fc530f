"""Sender, Receiver and QueueWatch: what a queue promises, in memory and on Azurite."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

import pytest
from azure.core.exceptions import ResourceNotFoundError

from shared.adapters.storage.queues import StorageQueues
from shared.engine.ports import Queue, QueueWatch, Received, Receiver, Sender
from tests.fakes import FakeClock, MemoryQueues

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


class Queues(Sender, Receiver, QueueWatch, Protocol):
    """All three ports."""


class Subject:
    """An implementation, and how time passes for it."""

    def __init__(self, queues: Queues, clock: FakeClock | None) -> None:
        self.queues = queues
        self._clock = clock

    def wait(self, wait: timedelta) -> None:
        if self._clock:
            self._clock.advance(wait)
        else:
            time.sleep(wait.total_seconds())

    def texts(self, queue: Queue = Queue.WAITING) -> list[str]:
        return sorted(message.text for message in self.queues.receive(queue, HOUR))


@pytest.fixture(params=["memory", "azurite", "identity"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    if request.param == "memory":
        clock = FakeClock()
        yield Subject(MemoryQueues(clock), clock)
        return
    account = request.getfixturevalue("account_on")(request.param)
    yield Subject(StorageQueues(account), None)
    # Azurite is slower with every message it holds.
    for queue in (Queue.WAITING, Queue.DEADLETTERS):
        with contextlib.suppress(ResourceNotFoundError):
            account.queue(queue).delete_queue()


def test_a_missing_queue_has_no_messages(subject: Subject) -> None:
    assert subject.texts() == []


def test_a_put_makes_the_queue(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "one")

    assert subject.texts() == ["one"]


def test_queues_are_apart(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "one")

    assert subject.texts(Queue.DEADLETTERS) == []


def test_put_all_stores_every_text(subject: Subject) -> None:
    texts = [f"{number:02}" for number in range(20)]

    subject.queues.put_all(Queue.WAITING, texts)

    assert subject.texts() == texts


def test_put_all_of_nothing_does_nothing(subject: Subject) -> None:
    subject.queues.put_all(Queue.WAITING, [])

    assert subject.texts() == []


def test_at_most_32_are_received_at_once(subject: Subject) -> None:
    subject.queues.put_all(Queue.WAITING, ["x"] * 33)

    assert [len(subject.texts()), len(subject.texts())] == [32, 1]


@pytest.mark.parametrize(
    "text", ["", '{"a":"<b>&\'\\"</b>"}', " a  b\t\n", "x" * 48 * 1024, '"' * 48 * 1024]
)
def test_a_text_comes_back_as_it_was(subject: Subject, text: str) -> None:
    subject.queues.put(Queue.WAITING, text)

    assert subject.texts() == [text]


def test_a_message_is_hidden_until_its_time(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "later", visible_in=SECOND)
    before = subject.texts()
    subject.wait(SECOND * 1.3)

    assert (before, subject.texts()) == ([], ["later"])


def test_a_wait_is_rounded_up_to_whole_seconds(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "later", visible_in=timedelta(milliseconds=10))

    assert subject.texts() == []


def test_a_wait_in_the_past_is_none(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "now", visible_in=-HOUR)

    assert subject.texts() == ["now"]


def test_a_wait_beyond_what_queues_can_do_is_stored(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "much later", visible_in=timedelta(days=8))

    assert subject.texts() == []


def test_a_received_message_is_hidden_from_others_and_comes_back(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "one")
    subject.queues.receive(Queue.WAITING, SECOND)
    while_held = subject.texts()
    subject.wait(SECOND * 1.3)

    assert (while_held, subject.texts()) == ([], ["one"])


def test_a_deleted_message_does_not_come_back(subject: Subject) -> None:
    subject.queues.put_all(Queue.WAITING, ["one", "two"])
    for message in subject.queues.receive(Queue.WAITING, SECOND):
        if message.text == "one":
            subject.queues.delete(Queue.WAITING, message)
    subject.wait(SECOND * 1.3)

    assert subject.texts() == ["two"]


def test_a_message_can_be_let_go_at_once(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "one")
    (message,) = subject.queues.receive(Queue.WAITING, HOUR)
    subject.queues.hide(Queue.WAITING, message, timedelta())

    assert subject.texts() == ["one"]


def test_a_message_can_be_hidden_for_longer(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "one")
    (message,) = subject.queues.receive(Queue.WAITING, SECOND)
    subject.queues.hide(Queue.WAITING, message, HOUR)
    subject.wait(SECOND * 1.3)

    assert subject.texts() == []


def test_what_somebody_else_has_received_is_left_alone(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "one")
    (mine,) = subject.queues.receive(Queue.WAITING, HOUR)
    subject.queues.hide(Queue.WAITING, mine, timedelta())
    (theirs,) = subject.queues.receive(Queue.WAITING, HOUR)

    subject.queues.delete(Queue.WAITING, mine)
    subject.queues.hide(Queue.WAITING, mine, timedelta())
    taken_early = subject.texts()
    subject.queues.hide(Queue.WAITING, theirs, timedelta())

    assert (taken_early, subject.texts()) == ([], ["one"])


def test_deleting_twice_does_nothing(subject: Subject) -> None:
    subject.queues.put(Queue.WAITING, "one")
    (message,) = subject.queues.receive(Queue.WAITING, HOUR)

    subject.queues.delete(Queue.WAITING, message)
    subject.queues.delete(Queue.WAITING, message)
    subject.queues.hide(Queue.WAITING, message, timedelta())

    assert subject.texts() == []


def test_a_handle_on_a_missing_queue_does_nothing(subject: Subject) -> None:
    message = Received(text="one", handle=("b3c1f7b4-0000-4000-8000-000000000000", "AgAAAAMAAAAA"))

    subject.queues.delete(Queue.WAITING, message)
    subject.queues.hide(Queue.WAITING, message, timedelta())

    assert subject.texts() == []


def test_what_was_put_can_be_taken_back(subject: Subject) -> None:
    now = subject.queues.put(Queue.WAITING, "now")
    later = subject.queues.put(Queue.WAITING, "later", visible_in=SECOND)
    subject.queues.put(Queue.WAITING, "other")

    taken = [subject.queues.take_back(Queue.WAITING, receipt) for receipt in (now, later)]
    subject.wait(SECOND * 1.3)

    assert (taken, subject.texts()) == ([True, True], ["other"])


def test_what_was_put_can_be_replaced_while_it_is_hidden(subject: Subject) -> None:
    receipt = subject.queues.put(Queue.WAITING, "three", visible_in=HOUR)

    receipt = subject.queues.replace(Queue.WAITING, receipt, "two", HOUR) or receipt
    still_hidden = subject.texts()
    again = subject.queues.replace(Queue.WAITING, receipt, "one", SECOND)
    subject.wait(SECOND * 1.3)

    assert again
    assert (still_hidden, subject.texts()) == ([], ["one"])


def test_what_was_replaced_has_a_receipt_of_its_own(subject: Subject) -> None:
    old = subject.queues.put(Queue.WAITING, "two", visible_in=HOUR)
    new = subject.queues.replace(Queue.WAITING, old, "one", HOUR)

    assert new
    assert not subject.queues.take_back(Queue.WAITING, old)
    assert subject.queues.take_back(Queue.WAITING, new)
    assert not subject.queues.take_back(Queue.WAITING, new)


def test_a_receipt_is_good_until_somebody_receives_the_message(subject: Subject) -> None:
    """Also when it was hidden, and is visible again: it may have been handled meanwhile."""
    receipt = subject.queues.put(Queue.WAITING, "one")
    (message,) = subject.queues.receive(Queue.WAITING, SECOND)

    while_held = subject.queues.replace(Queue.WAITING, receipt, "other", HOUR)
    subject.queues.hide(Queue.WAITING, message, timedelta())

    assert while_held is None
    assert subject.queues.replace(Queue.WAITING, receipt, "other", HOUR) is None
    assert not subject.queues.take_back(Queue.WAITING, receipt)
    assert subject.texts() == ["one"]


def test_a_receipt_of_what_was_deleted_is_good_for_nothing(subject: Subject) -> None:
    receipt = subject.queues.put(Queue.WAITING, "one")
    (message,) = subject.queues.receive(Queue.WAITING, HOUR)
    subject.queues.delete(Queue.WAITING, message)

    assert not subject.queues.take_back(Queue.WAITING, receipt)
    assert subject.queues.replace(Queue.WAITING, receipt, "other", HOUR) is None
    assert subject.texts() == []


def test_looking_leaves_a_queue_as_it_is(subject: Subject) -> None:
    """Hidden messages are counted and not seen, received ones as well."""
    queues = subject.queues
    assert queues.peek(Queue.WAITING) == (0, [])
    for text in ("one", "two"):
        queues.put(Queue.WAITING, text)
    queues.put(Queue.WAITING, "hidden", HOUR)

    for _ in range(2):
        backlog = queues.peek(Queue.WAITING)
        assert (backlog.messages, sorted(seen.text for seen in backlog.visible)) == (
            3,
            ["one", "two"],
        )
        assert all(seen.stored_at.tzinfo for seen in backlog.visible)
    assert subject.texts() == ["one", "two"]
    assert queues.peek(Queue.WAITING).visible == []
