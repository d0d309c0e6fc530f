"""Delivering one message: what it meets, what is pushed, and what is stored before its end."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from pushgrid.testing.memory import START, ScriptedPusher, answered
from pushgrid.testing.memory.pushing import Sent
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import VERSION
from shared.delivery.outcome import Outcome
from shared.engine.delivering.in_hand import MessageInHand, Part
from shared.engine.ports import Queue
from shared.errors import MalformedMessage, StorageUnavailable
from shared.http import Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest
from tests.builders import (
    DEAD,
    ORIGIN,
    PARKED,
    URL,
    a_delivery,
    a_message,
    a_note,
    a_subscription,
    a_topic,
    an_attempt,
    encode,
    text,
)
from tests.functional.delivering.failing import another_process, answer_by, groups, requests
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

HOUR = timedelta(hours=1)
TRIED = a_delivery(attempts=2, last=an_attempt())
ELSEWHERE = a_delivery(origin=PARKED, text=None)


@pytest.mark.parametrize(
    ("early", "queue", "hidden"),
    [
        pytest.param(2, None, None, id="2 s"),
        pytest.param(2.001, Queue.RETRIES, 3 * SECOND, id="more"),
        pytest.param(3600, Queue.WAITING, 59 * MINUTE, id="an hour"),
    ],
)
def test_a_message_received_early_is_requeued_unattempted(
    app: Deployment, early: float, queue: Queue | None, hidden: timedelta | None
) -> None:
    """Design §2: by more than 2 s."""
    app.subscribe()
    message = a_message([a_delivery(attempts=7, last=an_attempt())], due=START + early * SECOND)

    app.run(message)

    assert len(app.pusher.sent) == (queue is None)
    assert app.all_stored() == ({queue: 1} if queue else {})
    if queue:
        assert (app.on(queue), app.queues.waits(queue)) == ([message], [hidden])


@pytest.mark.parametrize("text", [f'{{"pushgrid":{VERSION - 1}}}', '{"pushgrid":9,"x":"\u00fc"}'])
def test_another_versions_message_is_requeued_for_five_minutes(
    app: Deployment, logged: Logged, text: str
) -> None:
    app.work(text)

    assert app.queues.texts(Queue.RETRIES) == [text]
    assert app.queues.waits(Queue.RETRIES) == [5 * MINUTE]
    assert len(logged("message.other_version")) == 1


@pytest.mark.parametrize("text", ["damaged", encode(a_message(dead_letter=a_note()))[0]])
def test_a_message_that_is_no_delivery_is_an_internal_error(app: Deployment, text: str) -> None:
    app.subscribe()

    with pytest.raises(MalformedMessage):
        app.work(text)

    assert (app.pusher.sent, app.all_stored()) == ([], {})


@pytest.mark.parametrize(
    "known",
    [{}, {"generation": "g-0", "endpoint_url": "https://old.example/"}, {"expires_at": START}],
    ids=["not known yet", "known from before", "expired as known"],
)
def test_a_subscription_is_read_past_the_cache_before_its_events_end(
    app: Deployment, known: dict[str, Any]
) -> None:
    """Design §2, order of writes 4. `test_lifecycle` has the ends themselves."""
    if known:
        app.subscribe(**known)
    app.directory.change(a_subscription())

    app.run(a_message())

    assert [sent.request.url for sent in app.pusher.sent] == [URL]


def without_a_thread(app: Deployment) -> None:
    async def refuse(_: object) -> NoReturn:
        raise StorageUnavailable

    app.deliver = replace(app.deliver, off_loop=refuse)


@pytest.mark.parametrize(
    ("fail", "delivery"),
    [
        pytest.param(lambda app: app.directory.fail_next("subscription"), TRIED, id="subscription"),
        pytest.param(lambda app: app.directory.fail_next("read_uncached"), TRIED, id="row"),
        pytest.param(lambda app: app.directory.fail_next("topic"), TRIED, id="topic"),
        pytest.param(lambda app: app.payloads.fail_next("read"), ELSEWHERE, id="payload"),
        pytest.param(without_a_thread, ELSEWHERE, id="thread"),
    ],
)
def test_what_can_not_be_judged_now_is_requeued(
    app: Deployment, fail: Callable[[Deployment], object], delivery: Delivery
) -> None:
    """However long storage fails: the host would give the message up after 20 minutes."""
    if delivery.text is None:
        app.subscribe()
    else:
        app.directory.change(a_subscription())
    fail(app)

    app.run(a_message([delivery], rounds=2))

    assert app.on(Queue.RETRIES) == [a_message([delivery], rounds=2, due=START + MINUTE)]
    assert (app.queues.waits(Queue.RETRIES), app.pusher.sent) == ([MINUTE], [])


def test_parked_events_are_read_from_their_blob(app: Deployment) -> None:
    app.subscribe()
    lines = [text(id="of another request"), "", text(id="parked")]
    name = app.payloads.write("p", START + HOUR, lines)
    origin = ORIGIN._replace(payload=name, first_line=1)

    app.run(a_message([a_delivery(0), a_delivery(1, text=None, origin=origin)]))

    ids = [json.loads(sent.request.body)[0]["id"] for sent in app.pusher.sent]
    assert ids == ["e-0", "parked"]


def test_a_parked_event_stays_parked_for_its_retry(app: Deployment) -> None:
    app.subscribe()
    name = app.payloads.write("p", START + HOUR, [text()])
    app.pusher.script(URL, answered(500))

    app.run(a_message([a_delivery(text=None, origin=ORIGIN._replace(payload=name))]))

    (delivery,) = app.on(Queue.RETRIES)[0].deliveries
    assert (delivery.text, delivery.origin.payload) == (None, name)


@pytest.mark.parametrize("lines", [None, ["", "x"], []], ids=["no blob", "empty line", "too short"])
def test_a_missing_payload_is_a_recorded_end(
    app: Deployment, logged: Logged, lines: Sequence[str] | None
) -> None:
    """Design §2, order of writes 5: never an exception, and the others go on."""
    app.subscribe(dead_letter=DEAD)
    if lines is not None:
        app.payloads.blobs[str(PARKED.payload)] = tuple(lines)

    app.run(a_message([ELSEWHERE, a_delivery(1)]))

    assert [line["reason"] for line in logged("delivery.dropped")] == ["PayloadMissing"]
    assert (len(app.pusher.sent), app.all_stored()) == (1, {})


NO_ANSWER = NotAnswered(Failure.SOCKET, "refused", 0.1)
OTHER = Outcome.GENERIC_ERROR, 500
REFUSED = Outcome.SOCKET_ERROR, None


class CutOff(ScriptedPusher):
    """The host ends while the first push is under way."""

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        answer = await super().send(request, timeout, late)
        if len(self.sent) == 1:
            await asyncio.Event().wait()
        return answer


def test_the_delivery_count_has_only_attempts_whose_result_was_stored(app: Deployment) -> None:
    app.subscribe()
    app.pusher = CutOff(app.clock)
    app.push_with(app.pusher)
    app.pusher.script(URL, answered(503), answered(503), answered(200))
    cut_off = app.begin(a_message())

    another_process(app)
    app.run(a_message())
    (message,) = app.on(Queue.RETRIES)
    app.clock.advance(MINUTE)
    app.run(message)

    assert not cut_off.done()
    sent = [each.request.headers["aeg-delivery-count"] for each in app.pusher.sent]
    assert sent == ["0", "0", "1"]


def test_a_success_leaves_nothing_behind(app: Deployment, logged: Logged) -> None:
    app.subscribe()

    app.run(a_message([a_delivery(0), a_delivery(1)]))

    assert (requests(app), app.all_stored()) == ([[0], [1]], {})
    assert [line["delivered"] for line in logged("delivery.run")] == [2]
    assert {sent.timeout for sent in app.pusher.sent} == {timedelta(seconds=30)}


@pytest.mark.parametrize(
    ("answer", "last", "attempts", "jitter", "due", "queue", "hidden"),
    [
        pytest.param(answered(500), OTHER, 1, 0.55, 10.55, Queue.RETRIES, 11, id="jitter"),
        pytest.param(NO_ANSWER, REFUSED, 6, 0, 1800, Queue.WAITING, 1740, id="30 min"),
    ],
)
def test_a_failure_is_stored_for_its_retry(
    app: Deployment,
    answer: Exchange,
    last: tuple[Outcome, int | None],
    attempts: int,
    jitter: float,
    due: float,
    queue: Queue,
    hidden: int,
) -> None:
    """
    Design §2, Waiting: visibility is rounded up.

    Over ten minutes it waits on the queue without a trigger, whose timer needs a minute ahead.
    """
    app.subscribe()
    app.pusher.script(URL, answer)
    app.chance.jitter = lambda: jitter

    app.run(a_message([a_delivery(attempts=attempts - 1)]))

    assert app.all_stored() == {queue: 1}
    assert app.queues.waits(queue) == [hidden * SECOND]
    (message,) = app.on(queue)
    assert message.due == START + due * SECOND
    assert message.deliveries == (a_delivery(attempts=attempts, last=an_attempt(*last)),)


def test_an_exception_while_pushing_is_that_events_outcome(app: Deployment) -> None:
    """Design §2, order of writes 6: while its request is built, or sent."""
    app.subscribe()

    def answer(sent: Sent) -> Exchange:
        if b"e-1" in sent.request.body:
            raise RuntimeError("a bug")
        return answered(200)

    answer_by(app, answer)

    app.run(a_message([a_delivery(0, text="[]"), a_delivery(1), a_delivery(2)]))

    (message,) = app.on(Queue.RETRIES)
    ends = [(each.position, each.last and each.last[:2]) for each in message.deliveries]
    assert ends == [(0, (Outcome.GENERIC_ERROR, None)), (1, (Outcome.GENERIC_ERROR, None))]


def test_no_push_begins_after_a_minute(app: Deployment) -> None:
    """
    What is left is requeued, uncounted. Design §2, Isolation.

    With 42 s for the push itself, that is far from the host's own limit.
    """
    app.limit_pushes(1)
    app.subscribe()
    app.pusher.takes = 25 * SECOND
    left = [a_delivery(3), a_delivery(4, attempts=4, last=an_attempt())]

    app.run(a_message([*map(a_delivery, range(3)), *left], rounds=1))

    assert [sent.at - START for sent in app.pusher.sent] == [0 * SECOND, 25 * SECOND, 50 * SECOND]
    (message,) = app.on(Queue.RETRIES)
    assert message == a_message(left, due=message.due)
    assert message.due
    assert 60 * SECOND <= message.due - START <= 76 * SECOND


@pytest.mark.parametrize(
    ("status", "queue", "hidden"),
    [(500, Queue.RETRIES, 10 * SECOND), (400, Queue.DEADLETTERS, 5 * MINUTE)],
)
def test_failures_are_stored_while_slow_ones_go_on(
    app: Deployment, status: int, queue: Queue, hidden: timedelta
) -> None:
    """What failed a second ago is stored: a crash repeats little, and waits are kept."""
    app.directory.topics["orders"] = a_topic(profile="2020")  # without probation
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(status))
    held = app.hold("e-3")
    task = app.begin(a_message([a_delivery(number) for number in range(5)]))
    assert app.all_stored() == {}

    app.loop.advance(SECOND)

    assert app.waiting(queue) == [(hidden - SECOND, [0, 1, 2, 4])]
    assert not task.done()
    held.let_go()
    app.loop.settle()
    assert task.done()
    assert groups(app, queue) == [[0, 1, 2, 4], [3]]


def test_what_has_ended_is_freed_without_the_garbage_collector(app: Deployment) -> None:
    """With its events: in circles they would stay until a collection, and make it dearer."""
    app.subscribe()
    app.run(a_message())
    gc.collect()
    before = _in_hand()  # of other tests
    gc.disable()
    try:
        app.run(a_message())
        app.pusher.sent.clear()  # It would hear of late answers.
        after = _in_hand()
    finally:
        gc.enable()

    assert after == before


def _in_hand() -> list[object]:
    return [each for each in gc.get_objects() if type(each) in (MessageInHand, Part)]
