"""Messages for several subscriptions: each part goes its own way, and none keeps another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.delivering.in_hand import PushRequest
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable
from shared.http import Failure, NotAnswered
from shared.metrics import Metric
from shared.subscriptions.subscription import Batching, EventSubscription, SubscriptionKey
from tests.builders import DEAD, a_delivery, a_message, a_topic
from tests.functional.delivering.failing import (
    break_pushes,
    fan_out,
    forget,
    is_of,
    requests,
    subscribe,
    url,
)
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.unit.delivery.messages.wire import read_parts

WITHOUT_PROBATION = "2020"
SIX = [f"healthy-{number}" for number in range(6)]
FORTY = [f"s-{number}" for number in range(40)]
REFUSED = NotAnswered(Failure.SOCKET, "refused", 0.1)


def reached(app: Deployment) -> Counter[str]:
    """Count requests by subscription."""
    return Counter(
        sent.request.url.removeprefix("https://").split(".")[0] for sent in app.pusher.sent
    )


def stored(app: Deployment, queue: Queue) -> dict[str, tuple[timedelta, int]]:
    """Say for each subscription's part how long it is hidden, and how often it was tried."""
    return {
        part.subscription: (wait, part.deliveries[0].attempts) for wait, part in app.parts(queue)
    }


def test_of_ten_subscriptions_each_goes_by_its_own_rule(app: Deployment, logged: Logged) -> None:
    """One hangs, one is dead, one is held, one was deleted: six are served at once."""
    subscribe(app, "hanging", "dead", "held", "deleted", *SIX)
    app.pusher.script(url("held"), answered(503))
    app.work(fan_out("held"))
    forget(app)
    for known in (app.directory.known, app.directory.stored):
        known.pop(next(key for key in known if key.subscription == "deleted"))
    app.pusher.script(url("dead"), REFUSED)
    held = app.hold("hanging")
    task = app.begin(fan_out("hanging", "dead", "held", "deleted", *SIX))

    app.loop.advance(2 * SECOND)

    assert not task.done()
    assert reached(app) == dict.fromkeys(["dead", *SIX], 1)
    assert {sent.at for sent in app.pusher.sent} == {START}
    waiting = {"dead": (28 * SECOND, 1), "held": (8 * SECOND, 0)}
    assert stored(app, Queue.RETRIES) == waiting
    held.let_go()
    app.loop.settle()

    assert task.done()
    assert reached(app) == dict.fromkeys(["hanging", "dead", *SIX], 1)
    assert stored(app, Queue.RETRIES) == waiting
    (line,) = logged("delivery.dropped")
    assert (line["subscription"], line["reason"]) == ("deleted", "SubscriptionDeleted")
    assert len(app.metrics.of(Metric.DELIVERY_SUCCESS)) == 7


def test_a_part_that_waits_for_storage_keeps_no_other_from_its_endpoint(app: Deployment) -> None:
    """The deleted one's row is read anew, which may take long; it comes first in the message."""
    subscribe(app, "deleted", *SIX)
    for known in (app.directory.known, app.directory.stored):
        known.pop(next(key for key in known if key.subscription == "deleted"))
    app.work(fan_out(*SIX))  # What is known of their health is cached.
    app.pusher.sent.clear()
    read_uncached, reached_before = app.directory.read_uncached, Counter[str]()

    def slowly(key: SubscriptionKey) -> EventSubscription | None:
        reached_before.update(reached(app))
        return read_uncached(key)

    app.directory.read_uncached = slowly  # type: ignore[method-assign]
    app.work(fan_out("deleted", *SIX))

    assert reached_before == dict.fromkeys(SIX, 1)


def test_a_part_that_can_not_be_requeued_keeps_no_other_from_its_endpoint(app: Deployment) -> None:
    """Puts that fail are repeated for two minutes."""
    subscribe(app, "unsure", *SIX)
    app.directory.fail_next("subscription")
    app.queues.fail_next("put", 5)
    task = app.begin(fan_out("unsure", *SIX))
    assert reached(app) == dict.fromkeys(SIX, 1)

    app.loop.advance(20 * SECOND)

    assert task.done()
    assert [part.subscription for part in app.on(Queue.RETRIES)] == ["unsure"]


def test_each_dead_letter_is_of_its_own_subscription(app: Deployment) -> None:
    subscribe(app, "one", "two", dead_letter=DEAD)
    subscribe(app, "three")
    app.pusher.script(url("one"), answered(400))
    app.pusher.script(url("two"), answered(413))

    app.work(fan_out("one", "two", "three", events=3))

    found = {each.subscription: len(each.deliveries) for each in app.on(Queue.DEADLETTERS)}
    assert found == {"one": 3, "two": 3}
    assert set(app.all_stored()) == {Queue.DEADLETTERS}


@pytest.mark.parametrize("bad", ["one", "two", "three"])
def test_a_part_that_can_not_be_stored_stops_no_other(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    """The host repeats the message: what was stored of others is a duplicate, nothing is lost."""
    names = ("one", "two", "three")
    subscribe(app, *names, "four", dead_letter=DEAD)
    for name in names:
        app.pusher.script(url(name), answered(400 if name == bad else 500))
    put = app.queues.put

    def refuse(queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        if queue is Queue.DEADLETTERS:
            raise StorageUnavailable
        return put(queue, text, visible_in)

    monkeypatch.setattr(app.queues, "put", refuse)

    with pytest.raises(StorageUnavailable):
        app.work(fan_out(*names, "four"))

    assert reached(app) == dict.fromkeys((*names, "four"), 1)
    assert set(stored(app, Queue.RETRIES)) == {*names} - {bad}


def has_event_0(request: PushRequest) -> bool:
    return request.batch[0].position == 0


def test_a_part_in_which_we_fail_comes_back_alone(app: Deployment, logged: Logged) -> None:
    """A bug, seen with one subscription: the others, still under way, are not delivered again."""
    subscribe(app, "one", "two")
    for name in ("one", "two"):
        app.pusher.script(url(name), answered(500))
    held = app.hold("two")
    break_pushes(app, RuntimeError("a bug"), lambda it: is_of("one")(it) and has_event_0(it))
    app.begin(fan_out("one", "two", events=2))
    held.let_go()
    app.loop.settle()

    assert reached(app) == {"one": 2, "two": 2}
    assert sorted(app.waiting(Queue.RETRIES)) == [(10 * SECOND, [0, 1]), (60 * SECOND, [0, 1])]
    assert stored(app, Queue.RETRIES) == {"one": (60 * SECOND, 0), "two": (10 * SECOND, 1)}
    (line,) = logged("delivery.failed")
    assert (line["subscription"], line["detail"]) == ("one", "RuntimeError('a bug')")
    with pytest.raises(RuntimeError):  # Alone, it is the host's to repeat, and to give up.
        app.run(a_message(subscription="one"))


def test_a_message_is_kept_while_a_part_can_not_be_stored_apart(app: Deployment) -> None:
    subscribe(app, "one", "two")
    app.queues.fail_next("put", 1000)
    app.directory.fail_next("subscription")

    with pytest.raises(StorageUnavailable):
        app.work(fan_out("one", "two"))

    assert reached(app) == {"two": 1}


def deliver_beside(app: Deployment, events: Sequence[int]) -> None:
    """Deliver a message for each event, while an earlier push is under way; then let it go."""
    held = app.hold("e-999")
    first = app.begin(a_message([a_delivery(999)], batch_size=10))
    others = [app.begin(a_message([a_delivery(n)], batch_size=10)) for n in events]
    held.let_go()
    app.loop.advance(SECOND)
    assert all(each.done() for each in (first, *others))


def test_single_events_share_requests_while_a_push_is_under_way(app: Deployment) -> None:
    """
    Each invocation ends when its own event is delivered; nobody waits for others to come.

    A request's time is counted once, and each of its events is an attempt.
    """
    app.limit_pushes(1)
    app.subscribe(batching=Batching(max_events=10))
    deliver_beside(app, range(25))

    assert [len(each) for each in requests(app)] == [1, 10, 10, 5]
    assert sorted(event for each in requests(app)[1:] for event in each) == list(range(25))
    assert app.all_stored() == {}
    assert list(app.metrics.of(Metric.DELIVERY_SUCCESS).values()) == [26]
    assert list(app.metrics.of(Metric.PROCESSING_DURATION).values()) == [4 * 100]


def test_a_batch_of_two_messages_that_fails_comes_back_as_one_request(app: Deployment) -> None:
    """Each message stores its own event; both are due at the same time."""
    app.limit_pushes(1)
    app.directory.topics["orders"] = a_topic(profile=WITHOUT_PROBATION)
    subscription = app.subscribe(batching=Batching(max_events=10))
    script = [answered(200), answered(500), answered(200)]
    app.pusher.script(subscription.endpoint_url, *script)
    deliver_beside(app, (1, 2))
    messages = app.on(Queue.RETRIES)
    assert requests(app) == [[999], [1, 2]]
    assert sorted(app.waiting(Queue.RETRIES)) == [(9 * SECOND, [1]), (9 * SECOND, [2])]
    assert {each.deliveries[0].attempts for each in messages} == {1}

    app.queues.stored.clear()
    app.loop.advance(9 * SECOND)
    held = app.hold("e-7")
    app.begin(a_message([a_delivery(7)], batch_size=10))
    for each in (*messages, a_message([a_delivery(8)])):
        app.begin(each)
    held.let_go()
    app.loop.advance(SECOND)

    assert sorted(map(sorted, requests(app)[2:])) == [[1, 2], [7], [8]]
    assert app.all_stored() == {}


def test_batches_of_a_fan_out_message_stay_whole(app: Deployment) -> None:
    """A batching subscription's requests have as many events as before."""
    subscribe(app, "whole", batching=Batching(max_events=10))
    subscribe(app, "single")

    app.work(fan_out("whole", "single", events=10))

    assert reached(app) == {"whole": 1, "single": 10}


def test_subscriptions_that_fail_or_are_held_together_share_a_message(app: Deployment) -> None:
    subscribe(app, *FORTY)
    for name in FORTY:
        app.pusher.script(url(name), answered(503), answered(200))

    app.work(fan_out(*FORTY))
    (text,) = app.queues.texts(Queue.RETRIES)
    parts = read_parts(text)
    assert sorted(part.subscription for part in parts) == sorted(FORTY)
    assert {each.attempts for part in parts for each in part.deliveries} == {1}
    assert app.attempts.writes == [len(FORTY)]  # rows, all at once

    app.work(fan_out(*FORTY))
    _, held = app.queues.texts(Queue.RETRIES)
    assert len(read_parts(held)) == len(app.pusher.sent) == len(FORTY)

    app.queues.stored.clear()
    app.clock.advance(MINUTE)
    app.work(text)

    assert app.all_stored() == {}
    assert len(app.pusher.sent) == 2 * len(FORTY)
