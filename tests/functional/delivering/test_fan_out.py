"""Messages for several subscriptions: each part goes its own way, and none keeps another."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.delivering.answers import Attempted, Shortage
from shared.engine.delivering.handover import AGAIN_AFTER, COPY_HIDDEN_FOR
from shared.engine.delivering.visit import Request
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable
from shared.http import Failure, NotAnswered
from shared.metrics import Metric
from shared.subscriptions.subscription import Batching, EventSubscription, SubscriptionKey
from tests.builders import DEAD, a_delivery, a_message, a_topic
from tests.functional.delivering.led import Led, led
from tests.functional.deployment import SECOND, Deployment, Logged
from tests.unit.delivery.messages.wire import read, together

WITHOUT_PROBATION = "2020"
SIX = [f"healthy-{number}" for number in range(6)]
REFUSED = NotAnswered(Failure.SOCKET, "refused", 0.1)


def url(name: str) -> str:
    return f"https://{name}.example/hook"


def subscribe(app: Deployment, *names: str, **choices: object) -> None:
    for name in names:
        app.subscribe(name=name, endpoint_url=url(name), **choices)


def fan_out(*names: str, events: int = 1, batch: int = 1) -> str:
    """Return the text of a message with events that each of these subscriptions gets."""
    deliveries = [a_delivery(number) for number in range(events)]
    parts = [a_message(deliveries, subscription=name, batch_size=batch) for name in names]
    return together(*parts)


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


def make_held(app: Deployment, name: str) -> None:
    """Let an endpoint fail, so that it is held, and forget what is stored for that."""
    app.pusher.script(url(name), answered(503))
    app.work(fan_out(name))
    app.queues.stored.clear()
    app.pusher.sent.clear()


def test_of_ten_subscriptions_each_goes_by_its_own_rule(app: Deployment, logged: Logged) -> None:
    """One hangs, one is dead, one is held, one was deleted: six are served at once."""
    subscribe(app, "hanging", "dead", "held", "deleted", *SIX)
    make_held(app, "held")
    for known in (app.directory.known, app.directory.stored):
        known.pop(next(key for key in known if key.subscription == "deleted"))
    app.pusher.script(url("dead"), REFUSED)
    with led(app) as leading:
        leading.pusher.hold("hanging")
        invocation = leading.begin(fan_out("hanging", "dead", "held", "deleted", *SIX))
        leading.pusher.begun()
        invocation.until(lambda: len(logged("delivery.run")) == 1 + 2 + 6)
        assert not invocation.has_ended

        leading.pass_time(2)
        invocation.tick()

        assert invocation.has_ended
        assert reached(app) == dict.fromkeys(["dead", *SIX], 1)
        assert {sent.at for sent in app.pusher.sent} == {START}
        assert stored(app, Queue.RETRIES) == {
            "hanging": (COPY_HIDDEN_FOR, 0),
            "dead": (28 * SECOND, 1),
            "held": (8 * SECOND, 0),
        }
        leading.pusher.let_go()
        invocation.wait()

    assert reached(app) == dict.fromkeys(["hanging", "dead", *SIX], 1)
    assert set(stored(app, Queue.RETRIES)) == {"dead", "held"}
    (line,) = logged("delivery.dropped")
    assert (line["subscription"], line["reason"]) == ("deleted", "SubscriptionDeleted")
    assert len(app.metrics.of(Metric.DELIVERY_SUCCESS)) == 7


def test_a_part_that_waits_for_storage_keeps_no_other_from_its_endpoint(app: Deployment) -> None:
    """The deleted one's row is read anew, which may take long; it comes first in the message."""
    subscribe(app, "deleted", *SIX)
    for known in (app.directory.known, app.directory.stored):
        known.pop(next(key for key in known if key.subscription == "deleted"))
    read_uncached, reached_before = app.directory.read_uncached, Counter[str]()

    def slowly(key: SubscriptionKey) -> EventSubscription | None:
        reached_before.update(reached(app))
        return read_uncached(key)

    app.directory.read_uncached = slowly  # type: ignore[method-assign]
    app.work(fan_out("deleted", *SIX))

    assert reached_before == dict.fromkeys(SIX, 1)


def test_why_a_part_was_put_back_is_in_the_log(app: Deployment, logged: Logged) -> None:
    subscribe(app, "one")
    app.threads.are_scarce = True

    app.work(fan_out("one"))

    (line,) = logged("delivery.run")
    assert (line["put_back"], line["put_back_because"]) == (1, "no thread is free")
    assert [line["detail"] for line in logged("delivery.shortage")] == ["no thread is free"]


def test_each_dead_letter_is_of_its_own_subscription(app: Deployment) -> None:
    subscribe(app, "one", "two", dead_letter=DEAD)
    subscribe(app, "three")
    app.pusher.script(url("one"), answered(400))
    app.pusher.script(url("two"), answered(413))

    app.work(fan_out("one", "two", "three", events=3))

    found = {each.subscription: len(each.deliveries) for each in app.on(Queue.DEADLETTERS)}
    assert found == {"one": 3, "two": 3}
    assert set(app.all_stored()) == {Queue.DEADLETTERS}


def fail_for(app: Deployment, monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Let puts of these subscriptions' messages fail for as long as they are in the list."""
    put, failing = app.queues.put, list(names)

    def maybe(queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        if read(text).subscription in failing:
            raise StorageUnavailable
        return put(queue, text, visible_in)

    monkeypatch.setattr(app.queues, "put", maybe)
    return failing


@pytest.mark.parametrize("bad", ["one", "two", "three"])
def test_a_part_that_can_not_be_stored_stops_no_other(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    """The host repeats the message: what was stored of others is a duplicate, nothing is lost."""
    names = ("one", "two", "three")
    subscribe(app, *names, "four")
    for name in names:
        app.pusher.script(url(name), answered(500))
    fail_for(app, monkeypatch, bad)

    with pytest.raises(StorageUnavailable):
        app.work(fan_out(*names, "four"))

    assert reached(app) == dict.fromkeys((*names, "four"), 1)
    assert set(stored(app, Queue.RETRIES)) == {*names} - {bad}


def test_a_part_in_which_we_fail_comes_back_alone(app: Deployment, logged: Logged) -> None:
    """A bug of ours, seen with one subscription: the others are not delivered again."""
    subscribe(app, "one", "two")
    push = app.deliver.gates.push

    def broken(request: Request) -> Attempted | Shortage:
        if request.part.subscription.name == "one":
            raise RuntimeError("a bug")
        return push(request)

    app.deliver.gates.push = broken
    app.work(fan_out("one", "two"))

    assert reached(app) == {"two": 1}
    assert stored(app, Queue.RETRIES) == {"one": (60 * SECOND, 0)}
    (line,) = logged("delivery.failed")
    assert (line["subscription"], line["detail"]) == ("one", "RuntimeError('a bug')")
    with pytest.raises(RuntimeError):  # Alone, it is the host's to repeat, and to give up.
        app.run(a_message(subscription="one"))


def test_a_part_that_can_not_be_read_or_put_back_stops_no_other(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(app, "one", "two")
    fail_for(app, monkeypatch, "one")
    app.directory.fail_next("subscription", 3)  # also when it is asked who may go first

    with pytest.raises(StorageUnavailable):
        app.work(fan_out("one", "two"))

    assert reached(app) == {"two": 1}


def test_while_a_part_can_not_be_stored_the_invocation_does_not_end(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's message is still needed: it must not be deleted."""
    subscribe(app, "bad", "hanging")
    app.pusher.script(url("bad"), answered(500))
    with led(app) as leading:
        fail_for(app, monkeypatch, "bad")
        leading.pusher.hold("bad", "hanging")
        invocation = leading.begin(fan_out("bad", "hanging"))
        leading.pusher.begun(2)
        leading.pusher.let_go("bad")
        invocation.until(lambda: bool(app.slept))
        leading.pass_time(1.1)
        invocation.tick()

        assert not invocation.has_ended
        leading.pusher.let_go()
        with pytest.raises(StorageUnavailable):
            invocation.wait()
        assert not invocation.has_ended


def test_an_invocation_ends_when_all_parts_left_are_handed_over(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, logged: Logged
) -> None:
    subscribe(app, "one", "two", "healthy")
    with led(app) as leading:
        failing = fail_for(app, monkeypatch, "two")
        leading.pusher.hold("one", "two")
        invocation = leading.begin(fan_out("one", "two", "healthy"))
        leading.pusher.begun(2)
        invocation.until(lambda: len(logged("delivery.run")) == 1)
        leading.pass_time(1.1)
        invocation.tick()
        assert "one" in stored(app, Queue.RETRIES)
        assert not invocation.has_ended

        failing.clear()
        leading.pass_time(AGAIN_AFTER.total_seconds())
        invocation.tick()

        assert invocation.has_ended
        assert set(stored(app, Queue.RETRIES)) == {"one", "two"}
        leading.pusher.let_go()
        invocation.wait()
    assert app.all_stored() == {}


def bodies(app: Deployment) -> list[list[str]]:
    """Return the ids of what was pushed, request by request."""
    return [[each["id"] for each in json.loads(sent.request.body)] for sent in app.pusher.sent]


def begin_all(leading: Led, events: Sequence[int]) -> None:
    """Deliver a message for each event, while an earlier push is under way; then let it go."""
    leading.pusher.hold("e-999")
    first = leading.begin(a_message([a_delivery(999)], batch_size=10))
    leading.pusher.begun()
    others = [leading.begin(a_message([a_delivery(n)], batch_size=10)) for n in events]
    leading.pusher.let_go()
    for invocation in (first, *others):
        invocation.wait()


def test_single_events_share_requests_while_a_push_is_under_way(app: Deployment) -> None:
    """Each invocation ends when its own event is delivered; nobody waits for others to come."""
    app.subscribe(batching=Batching(max_events=10))
    with led(app, slots=1) as leading:
        begin_all(leading, range(25))

    assert [len(each) for each in bodies(app)] == [1, 10, 10, 5]
    pushed = [event for each in bodies(app)[1:] for event in each]
    assert sorted(pushed) == sorted(f"e-{number}" for number in range(25))
    assert app.all_stored() == {}


def test_a_batch_of_two_messages_that_fails_comes_back_as_one_request(app: Deployment) -> None:
    """Each message stores its own event; both are due at the same time."""
    app.directory.topics["orders"] = a_topic(profile=WITHOUT_PROBATION)
    subscription = app.subscribe(batching=Batching(max_events=10))
    script = [answered(200), answered(500), answered(200)]
    app.pusher.script(subscription.endpoint_url, *script)
    with led(app, slots=1) as leading:
        begin_all(leading, (1, 2))
        messages = app.on(Queue.RETRIES)
        assert bodies(app) == [["e-999"], ["e-1", "e-2"]]
        assert sorted(app.waiting(Queue.RETRIES)) == [(10 * SECOND, [1]), (10 * SECOND, [2])]
        assert {each.deliveries[0].attempts for each in messages} == {1}

        app.queues.stored.clear()
        leading.pass_time(10)
        leading.pusher.hold("e-7")
        busy = leading.begin(a_message([a_delivery(7)], batch_size=10))
        leading.pusher.begun()
        again = [leading.begin(each) for each in (*messages, a_message([a_delivery(8)]))]
        leading.pusher.let_go()
        for invocation in (busy, *again):
            invocation.wait()

    assert sorted(map(sorted, bodies(app)[2:])) == [["e-1", "e-2"], ["e-7"], ["e-8"]]
    assert app.all_stored() == {}


def test_a_request_of_several_messages_is_counted_once(app: Deployment) -> None:
    """Its time is that of one request, but each of its events is an attempt."""
    app.subscribe(batching=Batching(max_events=10))
    with led(app, slots=1) as leading:
        begin_all(leading, range(10))

    assert len(bodies(app)) == 2
    assert list(app.metrics.of(Metric.DELIVERY_SUCCESS).values()) == [11]
    assert list(app.metrics.of(Metric.PROCESSING_DURATION).values()) == [2 * 100]


def test_batches_of_a_fan_out_message_stay_whole(app: Deployment) -> None:
    """A batching subscription's requests have as many events as before."""
    subscribe(app, "whole", batching=Batching(max_events=10))
    subscribe(app, "single")

    app.work(fan_out("whole", "single", events=10))

    assert reached(app) == {"whole": 1, "single": 10}
