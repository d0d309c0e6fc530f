"""An invocation of a slow endpoint ends before its pushes do; nothing is lost by that."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from shared.engine.delivering.detaching import COPY_HIDDEN_FOR
from shared.engine.delivering.pushing import WAIT_FOR_SLOTS
from shared.engine.delivering.requeue import LONG_WAIT, PATIENCE
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from shared.http import Exchange, LateAnswerHandler, OutboundRequest
from tests.builders import URL, a_delivery, a_message
from tests.fakes import answered
from tests.functional.delivering.failing import fail
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

During = Callable[[Callable[[], object]], None]


@pytest.fixture
def slow(app: Deployment) -> Deployment:
    """A deployment whose pool finds every endpoint slow."""
    app.subscribe()
    app.pool.is_slow = True
    return app


@pytest.fixture
def during(slow: Deployment, monkeypatch: pytest.MonkeyPatch) -> During:
    """Do something whenever a push is on its way."""
    send = slow.pusher.send

    def do(action: Callable[[], object]) -> None:
        def watched(
            request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
        ) -> Exchange:
            action()
            return send(request, timeout, late)

        monkeypatch.setattr(slow.pusher, "send", watched)

    return do


def test_a_copy_replaces_the_message_while_pushes_go_on(slow: Deployment, during: During) -> None:
    """It is there before the invocation ends, and gone when all is stored."""
    seen: list[object] = []
    during(lambda: seen.append((slow.invocation_ended.is_set(), slow.waiting(Queue.RETRIES))))

    slow.run(a_message([a_delivery(0), a_delivery(1)]))

    assert seen == [(True, [(COPY_HIDDEN_FOR, [0, 1])])] * 2
    assert slow.all_stored() == {}


def test_what_follows_is_stored_before_the_copy_is_deleted(slow: Deployment) -> None:
    slow.pusher.script(URL, answered(503))

    slow.run(a_message())

    assert slow.waiting(Queue.RETRIES) == [(30 * SECOND, [0])]
    assert slow.on(Queue.RETRIES)[0].deliveries[0].attempts == 1


def test_the_copy_stays_when_what_follows_can_not_be_stored(
    slow: Deployment, during: During
) -> None:
    """The host has deleted its message: the copy brings the event back, uncounted."""
    slow.pusher.script(URL, answered(503))
    during(lambda: slow.queues.fail_next("put", 1000))

    with pytest.raises(StorageUnavailable):
        slow.run(a_message())

    (message,) = slow.on(Queue.RETRIES)
    assert message.deliveries == (a_delivery(0),)


def test_a_copy_that_can_not_be_deleted_is_logged_and_received_again(
    slow: Deployment, logged: Logged
) -> None:
    """A duplicate is better than a loss."""
    slow.queues.fail_next("take_back")

    slow.run(a_message())

    assert slow.waiting(Queue.RETRIES) == [(COPY_HIDDEN_FOR, [0])]
    assert len(logged("delivery.copy_not_deleted")) == 1


def test_after_a_detached_probe_the_same_copy_covers_the_rest(
    slow: Deployment, during: During
) -> None:
    fail(slow)
    slow.clock.advance(10 * SECOND)
    seen: list[object] = []
    during(lambda: seen.append(slow.waiting(Queue.RETRIES)))

    slow.run(a_message([a_delivery(0), a_delivery(1)]))

    assert seen == [[(COPY_HIDDEN_FOR, [0, 1])]] * 2
    assert slow.all_stored() == {}


def test_without_a_copy_the_invocation_goes_on(slow: Deployment) -> None:
    slow.queues.fail_next("put", 1000)

    slow.run(a_message())

    assert not slow.invocation_ended.is_set()
    assert not slow.pool.is_detached
    assert len(slow.pusher.sent) == 1


def test_a_copy_is_hidden_for_longer_than_a_run_lasts() -> None:
    """A probe and then the rest, each of at most 42 s after a minute; and Azure doesn't scale."""
    longest = 2 * (WAIT_FOR_SLOTS + 42 * SECOND) + PATIENCE

    assert longest + MINUTE < COPY_HIDDEN_FOR < LONG_WAIT
