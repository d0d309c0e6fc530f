"""Wake while storage fails, is slow, or has copies: a fault costs one message, and time is kept."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.clock import Deadline
from shared.delivery.messages.message import MessagePart
from shared.engine.ports import Queue, Receipt
from shared.engine.timers.receiving import HIDDEN_FOR
from shared.errors import StorageUnavailable
from tests.builders import ORIGIN, a_delivery, a_message, an_attempt, noise, text
from tests.functional.deployment import MINUTE, SECOND, Deployment
from tests.kills import Killed, Killer
from tests.unit.delivery.messages.wire import read_parts

MOST = 64  # deliveries of a message, which is what a fault may cost


def singles(count: int, **overrides: Any) -> list[MessagePart]:
    return [a_message([a_delivery(number)], **overrides) for number in range(count)]


def deliveries(parts: Iterable[MessagePart]) -> Counter[int]:
    """Count the deliveries of each event."""
    return Counter(each.position for part in parts for each in part.deliveries)


def wake(app: Deployment) -> Exception | None:
    """Run the timer once; return what it raised."""
    try:
        app.wake.run(app.in_a_minute())
    except StorageUnavailable as fault:
        return fault
    return None


def wake_until_all_is_moved(app: Deployment) -> Counter[int]:
    """Run the timer as its schedule does; count the deliveries of each event."""
    for _ in range(1000):
        wake(app)
        if not app.queues.texts(Queue.WAITING):
            break
        app.clock.advance(MINUTE)
    return deliveries(app.on(Queue.RETRIES))


def fail_puts_of(app: Deployment, patch: pytest.MonkeyPatch, position: int) -> None:
    """Let storage refuse every message that has this event."""
    put = app.queues.put

    def failing(queue: Queue, text: str, *args: Any) -> Receipt:
        if position in deliveries(read_parts(text)):
            raise StorageUnavailable
        return put(queue, text, *args)

    patch.setattr(app.queues, "put", failing)


def slow(
    app: Deployment, patch: pytest.MonkeyPatch, seconds: float, *verbs: str
) -> list[tuple[str, datetime]]:
    """Let requests take time; return a list of when each was sent."""
    sent: list[tuple[str, datetime]] = []

    def slowed(verb: str) -> Callable[..., Any]:
        act = getattr(app.queues, verb)

        def do(*args: Any) -> Any:
            sent.append((verb, app.clock.now()))
            done = act(*args)
            app.clock.advance(seconds * SECOND)
            return done

        return do

    for verb in verbs:
        patch.setattr(app.queues, verb, slowed(verb))
    return sent


def test_a_deletion_that_fails_repeats_its_own_message_alone(app: Deployment) -> None:
    app.put(Queue.WAITING, *singles(20))
    app.queues.fail_next("delete")

    assert wake(app)
    app.clock.advance(HIDDEN_FOR)
    found = wake_until_all_is_moved(app)

    assert (len(found), found.total()) == (20, 21)


def test_a_deletion_that_fails_by_a_fault_of_ours_stores_nothing_again(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages are handled again one by one after such a fault, but these are stored anew."""
    app.put(Queue.WAITING, *singles(20))
    with monkeypatch.context() as patched:

        def failing(*_: Any) -> None:
            raise TypeError("a bug")

        patched.setattr(app.queues, "delete", failing)
        assert wake(app)

    assert deliveries(app.on(Queue.RETRIES)).total() == 20


def test_a_put_that_fails_keeps_only_what_it_would_have_stored(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.put(Queue.WAITING, *singles(1000))
    with monkeypatch.context() as patched:
        fail_puts_of(app, patched, 999)
        assert wake(app)

    kept = app.on(Queue.WAITING)
    app.clock.advance(HIDDEN_FOR)
    found = wake_until_all_is_moved(app)

    assert len(kept) <= MOST
    assert (len(found), found.total()) == (1000, 1000)


def test_a_put_that_fails_keeps_none_of_other_large_events(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each needs a message of its own."""
    app.put(
        Queue.WAITING,
        *[a_message([a_delivery(n, text=text(data=noise(30_000, n)))]) for n in range(70)],
    )
    with monkeypatch.context() as patched:
        fail_puts_of(app, patched, 0)
        assert wake(app)

    assert deliveries(app.on(Queue.WAITING)) == {0: 1}
    assert deliveries(app.on(Queue.RETRIES)) == dict.fromkeys(range(1, 70), 1)


def test_a_put_that_fails_leaves_time_for_others(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is repeated for half of the time that is left, not for all of it."""
    names = [f"s-{number}" for number in range(9)]
    app.put(Queue.WAITING, *[a_message(subscription=each) for each in names])
    put = app.queues.put

    def failing(queue: Queue, text: str, *args: Any) -> Receipt:
        if read_parts(text)[0].subscription == "s-0":
            raise StorageUnavailable
        return put(queue, text, *args)

    monkeypatch.setattr(app.queues, "put", failing)

    assert wake(app)

    assert app.clock.now() - START < MINUTE
    assert [each.subscription for each in app.on(Queue.RETRIES)] == names[1:]


def test_a_run_whose_deletions_are_slow_ends_before_another_receives_its_messages(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer runs elsewhere as soon as what this run has received is visible again."""
    app.put(Queue.WAITING, *singles(800))
    other: list[Exception | None] = []
    with monkeypatch.context() as slowed:
        slow(app, slowed, 1.5, "delete")
        delete = app.queues.delete

        def run_elsewhere(*args: Any) -> None:
            if app.clock.now() - START > HIDDEN_FOR and not other:
                other.append(None)
                other[0] = wake(app)
            delete(*args)

        with monkeypatch.context() as first:
            first.setattr(app.queues, "delete", run_elsewhere)
            wake(app)
        took = app.clock.now() - START
        untouched = app.on(Queue.WAITING)
        found = wake_until_all_is_moved(app)

    assert (len(found), found.total(), other) == (800, 800, [])
    assert MINUTE < took < 3 * MINUTE  # its deadline, and one group of messages
    assert untouched == singles(800)[800 - len(untouched) :]


@pytest.mark.parametrize(
    ("verb", "seconds"), [("put", 16), ("receive", 2), ("receive", 16), ("delete", 16)]
)
def test_a_slow_storage_delays_and_nothing_is_moved_that_another_run_may_have(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, verb: str, seconds: float
) -> None:
    for number in range(400):  # They can't share messages.
        app.put(Queue.WAITING, a_message([a_delivery(number)], subscription=f"s-{number}"))
    sent = slow(app, monkeypatch, seconds, verb)

    wake(app)
    took = app.clock.now() - START
    wake(app)

    assert took < MINUTE + 2 * 16 * SECOND
    moved = deliveries(app.on(Queue.RETRIES))
    assert moved
    assert moved.total() + len(app.on(Queue.WAITING)) == 400
    assert {verb for verb, _ in sent} == {verb}


def test_nothing_is_moved_in_the_second_half_of_the_time_for_which_it_is_hidden(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever time the run is given: what is begun ends before another run can receive it."""
    for number in range(400):
        app.put(Queue.WAITING, a_message([a_delivery(number)], subscription=f"s-{number}"))
    sent = slow(app, monkeypatch, 5, "put", "delete")

    app.wake.run(Deadline(3 * HIDDEN_FOR, app.clock.monotonic))

    puts = [at - START for verb, at in sent if verb == "put"]
    assert max(each for each in puts if each < HIDDEN_FOR) >= HIDDEN_FOR / 2 - 10 * SECOND
    assert not [each for each in puts if HIDDEN_FOR / 2 <= each < HIDDEN_FOR]
    found = deliveries(app.on(Queue.RETRIES))
    assert found.total() == len(found)


def test_deletions_end_when_their_messages_are_visible_again(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.put(Queue.WAITING, *singles(MOST))
    slow(app, monkeypatch, 16, "delete")

    assert wake(app)

    assert app.clock.now() - START < HIDDEN_FOR + 17 * SECOND
    assert len(app.on(Queue.WAITING)) == MOST - 19


@pytest.mark.parametrize("seconds", [1.5, 5])
def test_messages_that_are_tried_alone_keep_the_time_of_the_run(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The run took five minutes, until another received what it was about to store."""
    app.put(Queue.WAITING, *singles(MOST))
    put = app.queues.put

    def failing(queue: Queue, text: str, *args: Any) -> Receipt:
        if MOST - 1 in deliveries(read_parts(text)):
            raise ValueError("a bug")
        return put(queue, text, *args)

    with monkeypatch.context() as patched:
        patched.setattr(app.queues, "put", failing)
        slow(app, patched, seconds, "put", "delete")
        with pytest.raises(ValueError, match="a bug"):
            app.wake.run(app.in_a_minute())

    moved, left = deliveries(app.on(Queue.RETRIES)), deliveries(app.on(Queue.WAITING))
    assert app.clock.now() - START <= MINUTE + 2 * seconds * SECOND
    assert moved
    assert moved + left == Counter(range(MOST))


def test_copies_that_meet_become_one(app: Deployment) -> None:
    """Each fault keeps a message that was stored anew; its deliveries fail, and wait again."""
    app.put(Queue.WAITING, *singles(128))
    for _ in range(4):
        app.queues.fail_next("delete")
        assert wake(app)
        app.queues.stored[Queue.WAITING] += app.queues.stored.pop(Queue.RETRIES)
        app.clock.advance(HIDDEN_FOR)

    found = wake_until_all_is_moved(app)

    assert (len(found), found.total(), max(found.values())) == (128, 128, 1)


def test_of_copies_the_later_state_is_kept(app: Deployment) -> None:
    tried = a_delivery(1, attempts=3, last=an_attempt())
    app.put(Queue.WAITING, a_message([a_delivery(1, attempts=2, last=an_attempt())], due=START))
    app.put(Queue.WAITING, a_message([tried, a_delivery(2)], due=START + MINUTE))
    app.put(Queue.WAITING, a_message([a_delivery(2)], generation="g-2", due=START + MINUTE))

    wake(app)

    moved = [(part.generation, part.due, part.deliveries) for part in app.on(Queue.RETRIES)]
    assert moved == [
        ("g-1", START + MINUTE, (tried, a_delivery(2))),
        ("g-2", START + MINUTE, (a_delivery(2),)),
    ]
    assert app.queues.texts(Queue.WAITING) == []


def a_mixed_backlog() -> list[MessagePart]:
    """Return messages with copies, of two due times and subscriptions."""
    numbers = [range(6), range(4, 10), range(10, 16), range(3, 5)]
    return [
        a_message(
            [a_delivery(number, origin=ORIGIN) for number in each],
            subscription=name,
            due=START + place % 2 * MINUTE,
        )
        for name in ("crm", "billing")
        for place, each in enumerate(numbers)
    ]


@pytest.mark.parametrize("fault", ["killed", "failed before", "failed after"])
def test_a_fault_at_any_request_loses_nothing_and_repeats_one_message(fault: str) -> None:
    """At each request to storage in turn, until a run has no other."""
    for at in itertools.count(1):
        app = Deployment()
        app.put(Queue.WAITING, *a_mixed_backlog())
        is_over = not _is_hit(app, fault, at)
        app.clock.advance(HIDDEN_FOR)
        wake_until_all_is_moved(app)

        for name in ("crm", "billing"):
            parts = [part for part in app.on(Queue.RETRIES) if part.subscription == name]
            assert set(deliveries(parts)) == set(range(16)), at
        repeated = deliveries(app.on(Queue.RETRIES)).total() - 32
        assert repeated <= (0 if is_over else 12), at  # what is due together
        if is_over:
            break
    assert at > 10


def _is_hit(app: Deployment, fault: str, at: int) -> bool:
    """Run wake; its request *at* is not done, or done without an answer. Tell if there was one."""
    with pytest.MonkeyPatch.context() as patched:
        if fault == "killed":
            Killer(patched, {app.queues: ("receive", "put", "delete")}, {at})
            try:
                wake(app)
            except Killed:
                return True
            return False
        numbers = itertools.count(1)

        def failing(act: Callable[..., Any]) -> Callable[..., Any]:
            def do(*args: Any) -> Any:
                number = next(numbers)
                if number == at and fault == "failed before":
                    raise StorageUnavailable
                done = act(*args)
                if number == at:
                    raise StorageUnavailable
                return done

            return do

        for verb in ("receive", "put", "delete"):
            patched.setattr(app.queues, verb, failing(getattr(app.queues, verb)))
        wake(app)
        return next(numbers) > at
