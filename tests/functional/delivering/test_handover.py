"""An invocation of a slow endpoint ends before its pushes do; nothing is lost by that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pushgrid.testing.memory import answered
from shared.delivery.messages.message import DeliveryMessage
from shared.delivery.slots.shares import Share
from shared.engine.delivering.deliver import TICK
from shared.engine.delivering.handover import AGAIN_AFTER, COPY_HIDDEN_FOR, RENEWED_BEFORE
from shared.engine.delivering.requeue import LONG_WAIT
from shared.engine.ports import Queue, Receipt
from tests.builders import URL, a_delivery, a_message
from tests.functional.delivering.failing import fail
from tests.functional.delivering.led import Invocation, Led, led
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged


@pytest.fixture
def slow(app: Deployment) -> Iterator[Led]:
    """A deployment whose endpoint hangs."""
    app.subscribe()
    with led(app) as slow:
        slow.pusher.hold(URL)
        yield slow


def detached(slow: Led, message: DeliveryMessage | None = None) -> Invocation:
    """Return an invocation that has ended, and whose pushes go on."""
    message = message or a_message()
    invocation = slow.begin(message)
    slow.pusher.begun(len(message.deliveries))
    slow.pass_time(1.1)
    invocation.tick()
    assert invocation.has_ended
    return invocation


def test_a_copy_replaces_the_message_while_pushes_go_on(slow: Led) -> None:
    """It is there before the invocation ends, and gone when all is stored."""
    app = slow.app
    at_end: list[object] = []
    invocation = slow.begin(
        a_message([a_delivery(0), a_delivery(1)]), lambda: at_end.append(app.waiting(Queue.RETRIES))
    )
    slow.pusher.begun(2)
    invocation.tick()
    slow.pass_time(0.9)
    invocation.tick()
    assert (at_end, app.all_stored()) == ([], {})

    slow.pass_time(0.2)
    invocation.tick()

    assert at_end == [[(COPY_HIDDEN_FOR, [0, 1])]]
    assert len(app.pusher.sent) == 0
    invocation.tick()
    slow.pusher.let_go()
    invocation.wait()
    assert len(app.pusher.sent) == 2
    assert (len(at_end), app.all_stored()) == (1, {})


def test_the_copy_has_what_is_undecided(app: Deployment) -> None:
    """What failed already has its own message; what was delivered is not pushed again."""
    app.subscribe()
    app.pusher.script(URL, answered(200), answered(500))
    with led(app, slots=1) as slow:
        slow.pusher.hold("e-2")
        invocation = slow.begin(a_message([a_delivery(number) for number in range(4)]))
        slow.pusher.begun()
        slow.pass_time(1.1)

        invocation.tick()

        assert invocation.has_ended
        assert app.waiting(Queue.RETRIES) == [(9 * SECOND, [1]), (COPY_HIDDEN_FOR, [2, 3])]
        slow.pusher.let_go()
        invocation.wait()


def test_a_detached_message_is_not_in_flight(slow: Led) -> None:
    invocation = slow.begin(a_message())
    slow.pusher.begun()
    (gate,) = slow.gates._known.values()
    assert gate.slots.visits == 1

    slow.pass_time(1.1)
    invocation.tick()

    assert (gate.slots.visits, gate.slots.used) == (0, 1)


def test_what_follows_is_stored_before_the_copy_is_deleted(
    slow: Led, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = slow.app
    app.pusher.script(URL, answered(503))
    take_back, seen = app.queues.take_back, []

    def watched(queue: Queue, receipt: Receipt) -> bool:
        seen.extend(app.on(queue))
        return take_back(queue, receipt)

    monkeypatch.setattr(app.queues, "take_back", watched)
    invocation = detached(slow)
    slow.pusher.let_go()
    invocation.wait()

    assert [each.deliveries[0].attempts for each in seen] == [0, 1]
    assert app.waiting(Queue.RETRIES) == [(30 * SECOND, [0])]
    assert app.on(Queue.RETRIES)[0].deliveries[0].attempts == 1


def test_lost_answers_of_storage_lead_to_few_copies(slow: Led) -> None:
    """Each put is done, and its answer is lost: each copy that is not known is a duplicate."""
    invocation = slow.begin(a_message())
    slow.pusher.begun(1)
    slow.app.queues.fail_next("put", 100, after=True)
    for _ in range(30):
        slow.pass_time(1.0)
        invocation.tick()

    assert len(slow.app.on(Queue.RETRIES)) == 2
    slow.pusher.let_go()
    invocation.wait()


def test_the_copy_stays_when_what_follows_can_not_be_stored(slow: Led, logged: Logged) -> None:
    """The host has deleted its message: the copy brings the event back, uncounted."""
    slow.app.pusher.script(URL, answered(503))
    invocation = detached(slow)
    slow.app.queues.fail_next("put", 1000)

    slow.pusher.let_go()
    invocation.wait()

    (message,) = slow.app.on(Queue.RETRIES)
    assert message.deliveries == (a_delivery(0),)
    (line,) = logged("delivery.failed")
    assert line["subscription"] == "crm"


def test_a_copy_that_can_not_be_deleted_is_logged_and_received_again(
    slow: Led, logged: Logged
) -> None:
    """A duplicate is better than a loss."""
    invocation = detached(slow)
    slow.app.queues.fail_next("take_back")

    slow.pusher.let_go()
    invocation.wait()

    assert slow.app.waiting(Queue.RETRIES) == [(COPY_HIDDEN_FOR, [0])]
    assert len(logged("delivery.copy_not_deleted")) == 1


def test_the_copy_stays_hidden_while_pushes_go_on(slow: Led) -> None:
    """Whatever a push takes; a process that dies leaves it hidden for a minute at most."""
    app = slow.app
    invocation = detached(slow)
    hidden_for = []

    for _ in range(4):
        slow.pass_time(20)
        invocation.tick()
        hidden_for += app.queues.waits(Queue.RETRIES)

    assert hidden_for == [40 * SECOND, MINUTE, 40 * SECOND, MINUTE]
    assert [each.deliveries for each in app.on(Queue.RETRIES)] == [(a_delivery(0),)]
    slow.pusher.let_go()
    invocation.wait()
    assert app.all_stored() == {}


def test_a_copy_that_can_not_be_hidden_again_is_logged_and_tried_again(
    slow: Led, logged: Logged
) -> None:
    invocation = detached(slow)
    slow.app.queues.fail_next("replace")
    slow.pass_time(35)
    invocation.tick()
    assert slow.app.queues.waits(Queue.RETRIES) == [25 * SECOND]
    assert len(logged("delivery.copy_not_hidden")) == 1

    invocation.tick()

    assert slow.app.queues.waits(Queue.RETRIES) == [MINUTE]


def test_a_copy_that_was_received_meanwhile_is_another_ones(slow: Led) -> None:
    """This process stood still for a minute: the pushes are made twice, and nothing breaks."""
    app = slow.app
    invocation = detached(slow)
    slow.pass_time(61)
    (received,) = app.queues.receive(Queue.RETRIES, 5 * MINUTE)

    invocation.tick()
    slow.pusher.let_go()
    invocation.wait()

    assert app.waiting(Queue.RETRIES) == [(5 * MINUTE, [0])]
    app.queues.delete(Queue.RETRIES, received)
    assert app.all_stored() == {}


def test_after_a_detached_probe_the_same_copy_covers_the_rest(app: Deployment) -> None:
    fail(app)
    app.clock.advance(10 * SECOND)
    with led(app) as slow:
        slow.pusher.hold("e-0", "e-1")
        invocation = slow.begin(a_message([a_delivery(0), a_delivery(1)]))
        assert slow.pusher.begun() == ["e-0"]
        slow.pass_time(1.1)
        invocation.tick()
        assert (invocation.has_ended, app.waiting(Queue.RETRIES)) == (
            True,
            [(COPY_HIDDEN_FOR, [0, 1])],
        )

        slow.pusher.let_go("e-0")
        assert slow.pusher.begun() == ["e-1"]
        invocation.tick()

        assert app.waiting(Queue.RETRIES) == [(COPY_HIDDEN_FOR, [0, 1])]
        slow.pusher.let_go()
        invocation.wait()
    assert len(app.pusher.sent) == 2
    assert app.all_stored() == {}


def test_after_a_probe_that_was_handed_over_the_message_stays_out_of_flight(
    app: Deployment,
) -> None:
    """The host has deleted it: what goes on counts as none of its messages."""
    fail(app)
    app.clock.advance(10 * SECOND)
    with led(app) as slow:
        slow.pusher.hold("e-0", "e-1")
        invocation = slow.begin(a_message([a_delivery(0), a_delivery(1)]))
        slow.pusher.begun()
        slow.pass_time(1.1)
        invocation.tick()
        slow.pusher.let_go("e-0")
        slow.pusher.begun()
        slow.pass_time(1.1)
        invocation.tick()

        (gate,) = slow.gates._known.values()
        in_flight = gate.slots.visits

        slow.pusher.let_go()
        invocation.wait()
    assert in_flight == 0


def test_without_a_copy_the_invocation_goes_on(slow: Led) -> None:
    slow.app.queues.fail_next("put", 1000)
    invocation = slow.begin(a_message())
    slow.pusher.begun()
    slow.pass_time(1.1)
    invocation.tick()
    (gate,) = slow.gates._known.values()
    assert not invocation.has_ended
    assert gate.slots.visits == 1

    slow.pusher.let_go()
    invocation.wait()

    assert not invocation.has_ended
    assert (len(slow.app.pusher.sent), slow.app.all_stored()) == (1, {})


def test_an_invocation_ends_when_its_copy_can_be_stored_at_last(slow: Led) -> None:
    slow.app.queues.fail_next("put")
    invocation = slow.begin(a_message())
    slow.pusher.begun()
    slow.pass_time(1.1)
    invocation.tick()
    assert not invocation.has_ended

    slow.pass_time(AGAIN_AFTER.total_seconds())
    invocation.tick()

    assert invocation.has_ended
    assert slow.app.waiting(Queue.RETRIES) == [(COPY_HIDDEN_FOR, [0])]


@pytest.fixture
def full(app: Deployment) -> Iterator[Led]:
    """A deployment whose endpoint hangs, and has the one message in flight that it may have."""
    app.subscribe()
    with led(app, slots=3, in_flight=Share(total=2)) as full:
        full.pusher.hold(URL)
        detached(full)
        full.begin(a_message([a_delivery(1)]))
        full.pusher.begun()
        yield full


def test_a_message_for_which_only_a_slot_is_free_is_handed_over_at_once(full: Led) -> None:
    invocation = full.begin(a_message([a_delivery(2)]))
    full.pusher.begun()

    assert invocation.has_ended
    assert full.app.waiting(Queue.RETRIES)[-1] == (COPY_HIDDEN_FOR, [2])
    (gate,) = full.gates._known.values()
    assert (gate.slots.visits, gate.slots.used) == (1, 3)

    beyond = full.begin(a_message([a_delivery(3)]))
    beyond.wait()
    assert [3] in [positions for _, positions in full.app.waiting(Queue.RETRIES)]
    assert len(full.app.on(Queue.RETRIES)) == 3

    full.pusher.let_go()
    invocation.wait()


def test_a_message_that_can_not_be_handed_over_at_once_stays_in_flight(full: Led) -> None:
    full.app.queues.fail_next("put")
    invocation = full.begin(a_message([a_delivery(2)]))
    full.pusher.begun()
    (gate,) = full.gates._known.values()
    assert (invocation.has_ended, gate.slots.visits) == (False, 2)

    full.pass_time(AGAIN_AFTER.total_seconds())
    invocation.tick()

    assert (invocation.has_ended, gate.slots.visits) == (True, 1)
    full.pusher.let_go()
    invocation.wait()


def test_a_quick_invocation_stores_no_copy(app: Deployment) -> None:
    """However long it takes: its pushes end, only there are many."""
    app.subscribe()
    with led(app, slots=1) as quick:
        quick.begin(a_message([a_delivery(9)])).wait()
        quick.pusher.hold("e-0", "e-1")
        invocation = quick.begin(a_message([a_delivery(0), a_delivery(1)]))
        quick.pusher.begun()
        quick.pass_time(0.9)
        quick.pusher.let_go("e-0")
        quick.pusher.begun()
        quick.pass_time(0.9)

        invocation.tick()

        assert (invocation.has_ended, app.all_stored()) == (False, {})
        quick.pusher.let_go()
        invocation.wait()


def test_a_copy_is_renewed_long_before_it_is_visible() -> None:
    """And it never lies on the queue without a trigger: its process may have died."""
    assert TICK * SECOND * 10 < RENEWED_BEFORE < COPY_HIDDEN_FOR < LONG_WAIT
