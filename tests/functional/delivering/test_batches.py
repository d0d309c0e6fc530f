"""Output batching, custom headers and signatures from publish to end: contract §2.4 and §2.5."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.ports import Queue
from shared.subscriptions.signing import sign
from shared.subscriptions.subscription import Batching
from tests.builders import DEAD, ORIGIN, URL, a_delivery, a_message, a_topic, an_attempt
from tests.functional.delivering.failing import deliver_all, groups, requests
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.functional.publish_requests import event, publish
from tests.unit.subscriptions.test_signing import NEW, OLD

HUNDRED = Batching(max_events=100, preferred_kilobytes=1024)
WITHOUT_PROBATION = "2020"


@pytest.fixture(autouse=True)
def _time_passes(app: Deployment) -> None:
    """No two requests begin at the same time."""
    app.pusher.takes = timedelta(milliseconds=1)


def test_what_is_published_together_is_pushed_together(app: Deployment) -> None:
    app.subscribe(batching=HUNDRED)

    publish(app, *(event(number) for number in range(250)))
    deliver_all(app)

    assert requests(app) == [list(range(100)), list(range(100, 200)), list(range(200, 250))]
    assert app.all_stored() == {}


@pytest.mark.parametrize("status", [400, 413])
def test_an_answer_that_is_never_retried_ends_the_whole_batch_at_its_first_try(
    app: Deployment, status: int
) -> None:
    """Also 413, though smaller batches might be accepted: contract §3.2."""
    app.subscribe(batching=HUNDRED, dead_letter=DEAD)
    app.pusher.script(URL, answered(status), answered(200))
    publish(app, *(event(number) for number in range(100)))

    deliver_all(app)

    assert requests(app) == [list(range(100))]
    assert app.all_stored() == {Queue.DEADLETTERS: 1}
    (part,) = app.on(Queue.DEADLETTERS)
    assert [each.attempts for each in part.deliveries] == [1] * 100


def test_a_failed_batch_comes_back_whole(app: Deployment) -> None:
    """Under one id, in bytes that are the same; delayed delivery keeps it for 1, then 2 minutes."""
    app.subscribe(batching=HUNDRED, signing=(NEW,))
    app.pusher.script(URL, answered(503), answered(503), answered(200))
    publish(app, *(event(number) for number in range(100)))

    deliver_all(app)
    (message,) = app.on(Queue.RETRIES)
    assert {each.attempts for each in message.deliveries} == {1}
    for wait in (1, 2):
        app.clock.advance(wait * MINUTE)
        deliver_all(app, Queue.RETRIES)

    assert requests(app) == [list(range(100))] * 3
    sent = [each.request for each in app.pusher.sent]
    assert [each.headers["aeg-delivery-count"] for each in sent] == ["0", "1", "2"]
    assert len({(each.headers["webhook-id"], each.body) for each in sent}) == 1
    assert "aeg-output-event-id" not in sent[0].headers
    assert app.all_stored() == {}


def test_batches_of_one_message_fail_each_for_itself(app: Deployment) -> None:
    app.directory.topics["orders"] = a_topic(profile=WITHOUT_PROBATION)
    app.subscribe(batching=Batching(max_events=5))
    app.pusher.script(URL, answered(503), answered(200), answered(503), answered(200))
    publish(app, *(event(number) for number in range(15)))

    deliver_all(app)
    app.clock.advance(MINUTE)
    deliver_all(app, Queue.RETRIES)

    first, second, third = (list(range(start, start + 5)) for start in (0, 5, 10))
    assert requests(app) == [first, second, third, first, third]


def test_a_refused_batch_is_dead_lettered_whole(app: Deployment, logged: Logged) -> None:
    app.subscribe(batching=HUNDRED, dead_letter=DEAD)
    app.pusher.script(URL, answered(400))
    publish(app, *(event(number) for number in range(100)))

    deliver_all(app)
    assert [len(message.deliveries) for message in app.on(Queue.DEADLETTERS)] == [100]
    app.clock.advance(6 * MINUTE)
    app.write_dead_letters.run(app.in_a_minute())

    (blob,) = app.dead_letters.blobs.values()
    assert [each["id"] for each in json.loads(blob)] == [f"e-{number}" for number in range(100)]
    (line,) = logged("delivery.attempted")
    assert (line["count"], line["event_ids"][0], len(line["event_ids"])) == (100, "e-0", 20)
    assert "event_id" not in line


def test_batches_that_wait_for_long_stay_whole(app: Deployment) -> None:
    """The timer merges what is due; requests of their own stay requests of their own."""
    app.subscribe(batching=Batching(max_events=64))
    for number in range(3):
        at = START + number * SECOND
        last = an_attempt()._replace(at=at)
        group = [
            a_delivery(place, attempts=6, last=last)
            for place in range(50 * number, 50 * number + 50)
        ]
        app.put(Queue.WAITING, a_message(group, due=START, batch_size=64))

    app.wake.run(app.in_a_minute())
    found = groups(app)
    deliver_all(app, Queue.RETRIES)

    expected = [list(range(start, start + 50)) for start in (0, 50, 100)]
    assert (found, requests(app)) == (expected, expected)


def test_a_batch_comes_back_whole_where_ages_decide(app: Deployment) -> None:
    """Its events may have been published at different times: the latest slot is everyone's."""
    app.directory.topics["orders"] = a_topic(profile="ns")
    app.subscribe(batching=HUNDRED)
    app.pusher.script(URL, answered(503))
    app.pusher.takes = timedelta()
    other = ORIGIN._replace(publish_id="other", published_at=START - 15 * SECOND)

    tried = {"attempts": 3, "last": an_attempt()}
    app.run(
        a_message([a_delivery(0, origin=other, **tried), a_delivery(1, **tried)], batch_size=100)
    )

    (message,) = app.on(Queue.RETRIES)
    assert [each.position for each in message.deliveries] == [0, 1]
    assert message.due == START + 5 * MINUTE


def deliver(app: Deployment, queue: Queue = Queue.DELIVERIES, after: timedelta = MINUTE) -> None:
    """Deliver everything on a queue, once, a minute later."""
    app.clock.advance(after)
    deliver_all(app, queue)


def test_each_attempt_is_signed_at_its_own_time_under_one_id(app: Deployment) -> None:
    app.subscribe(signing=(NEW, OLD))
    app.pusher.script(URL, answered(503), answered(200))
    publish(app, event(0))

    deliver(app)
    deliver(app, Queue.RETRIES)

    for sent, minutes in zip(app.pusher.sent, (1, 2), strict=True):
        id_ = app.pusher.sent[0].request.headers["aeg-output-event-id"]
        expected = sign(sent.request, (NEW, OLD), id_, START + minutes * MINUTE)
        assert sent.request.headers == expected.headers


def test_what_a_batch_comes_apart_into_has_ids_of_its_own(app: Deployment) -> None:
    app.subscribe(batching=HUNDRED, signing=(NEW,))
    app.pusher.script(URL, answered(503), answered(200))
    publish(app, *(event(number) for number in range(3)))

    deliver(app)
    app.subscribe(batching=Batching(max_events=1), signing=(NEW,))
    deliver(app, Queue.RETRIES)

    whole, *parts = (each.request.headers for each in app.pusher.sent)
    ids = [each["webhook-id"] for each in parts]
    assert ids == [each["aeg-output-event-id"] for each in parts]
    assert len({whole["webhook-id"], *ids}) == 4
