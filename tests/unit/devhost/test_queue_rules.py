"""What happens to a queue's messages, by the real host's rules."""

import asyncio
import base64
from datetime import timedelta

import pytest

from devhost.queue.listener import poison_queue_name
from devhost.storage.errors import StorageBusyError

MINUTE = 60.0


def test_success_deletes(listen, queue, poison):
    queue.put("hello")

    listen(1)

    assert queue.texts == []
    assert poison.texts == []


def test_a_received_message_is_hidden_for_ten_minutes(listen, queue, app):
    number = queue.put("hello")
    seen = []

    async def look(_listener):
        await asyncio.sleep(0.5)
        seen.append(queue.stored[number].visible_at)

    app.seconds = 1

    listen(1, during=look, visibility_timeout=timedelta(seconds=5))

    assert seen == [10 * MINUTE]


def test_failing_for_ever_runs_exactly_the_allowed_times_and_ends_in_poison(
    listen, queue, poison, app
):
    queue.put("bad")
    app.fails = True

    listen(30, max_dequeue_count=5)

    assert [count for _, _, count in app.calls] == ["1", "2", "3", "4", "5"]
    assert queue.texts == []
    assert poison.texts == ["bad"]
    assert poison.times("send") == app.times[-1:]


def test_a_failed_message_is_in_the_poison_queue_before_it_is_deleted(listen, queue, poison, app):
    """A host that ends between the two leaves a message too many, and none too few."""
    queue.put("bad")
    poison.delays["send"] = 5
    app.fails = True

    listen(10, max_dequeue_count=1)

    assert queue.times("delete") == [5.0]
    assert poison.texts == ["bad"]


def test_a_message_that_cannot_be_moved_to_poison_is_kept(listen, queue, poison, app):
    queue.put("bad")
    poison.faults["send"] = [StorageBusyError("503") for _ in range(9)]
    app.fails = True

    listen(20, max_dequeue_count=1)

    assert queue.texts == ["bad"]
    assert queue.times("delete") == []


def test_after_a_failure_the_message_waits_for_the_visibility_timeout(listen, queue, app):
    queue.put("bad")
    app.fails = True

    listen(30, max_dequeue_count=3, visibility_timeout=timedelta(seconds=5))

    gaps = [later - earlier for earlier, later in zip(app.times, app.times[1:], strict=False)]
    assert len(gaps) == 2
    assert all(5 <= gap <= 7 for gap in gaps)


def test_a_message_dequeued_too_often_goes_to_poison_without_a_call(listen, queue, poison, app):
    queue.put("old", dequeue_count=5)

    listen(1, max_dequeue_count=5)

    assert app.calls == []
    assert poison.texts == ["old"]
    assert queue.texts == []


def test_a_poison_queue_has_no_poison_queue_and_keeps_its_failures_hidden(
    listen, queue, poison, app
):
    queue.put("bad")
    queue.put("often", dequeue_count=9)
    app.fails = True

    listen(9 * MINUTE, name="work-poison", max_dequeue_count=5)

    assert len(app.calls) == 2
    assert queue.texts == ["bad", "often"]
    assert poison.texts == []


def test_text_that_is_not_base64_goes_to_poison_at_once(listen, queue, poison, app):
    queue.put("not base64!")
    queue.put(base64.b64encode("grüße".encode()).decode())

    listen(1, base64=True)

    assert [text for _, text, _ in app.calls] == ["grüße"]
    assert poison.texts == ["not base64!"]
    assert queue.texts == []


def test_no_more_than_batch_and_threshold_run_at_once(listen, queue, app):
    for number in range(64):
        queue.put(str(number))
    app.seconds, app.stagger = 1, 0.01

    listen(60, batch_size=4, new_batch_threshold=2)

    assert app.most_running == 6
    assert len(app.calls) == 64


def test_the_next_batch_is_fetched_when_the_threshold_is_reached(listen, queue, app):
    for number in range(8):
        queue.put(str(number))
    app.seconds = 1

    listen(5, batch_size=4, new_batch_threshold=0)

    assert app.times == [0.0] * 4 + [1.0] * 4


def test_a_long_run_is_renewed_every_five_minutes_and_deleted_with_the_last_receipt(
    listen, queue, app
):
    queue.put("slow")
    app.seconds = 16 * MINUTE

    listen(17 * MINUTE)

    assert queue.times("hide") == [300.0, 600.0, 900.0]
    assert len(app.calls) == 1
    assert queue.texts == []


def test_a_renewal_that_storage_could_not_serve_is_tried_again_sooner(listen, queue, app):
    queue.put("slow")
    queue.faults["hide"] = [StorageBusyError("503"), StorageBusyError("503")]
    app.seconds = 9.9 * MINUTE

    listen(11 * MINUTE)

    assert queue.times("hide") == [300.0, 450.0, 525.0]
    assert len(app.calls) == 1
    assert queue.texts == []


def test_a_renewal_under_way_is_waited_for_before_the_delete(listen, queue, app):
    queue.put("slow")
    queue.delays["hide"] = 10
    app.seconds = 5 * MINUTE + 5

    listen(6 * MINUTE)

    assert queue.texts == []
    assert queue.times("delete") == [310.0]


def test_a_function_may_delete_its_own_message(listen, queue, app, caplog):
    queue.put("mine")

    async def take_away(_listener):
        await asyncio.sleep(0.5)
        queue.stored.clear()

    app.seconds = 1

    listen(2, during=take_away)

    assert caplog.records == []


def test_a_function_may_put_off_its_own_message(listen, queue, app):
    """Its update makes the host's receipt stale; the message comes again, counted on."""
    number = queue.put("later")

    async def put_off(_listener):
        await asyncio.sleep(0.5)
        receipt = queue.stored[number].message.pop_receipt
        await queue.hide(number, receipt, timedelta(seconds=3))

    app.seconds = 1

    listen(6, during=put_off)

    assert [count for _, _, count in app.calls] == ["1", "2"]
    assert 3.5 <= app.times[1] <= 5.5
    assert queue.texts == []


def test_a_delete_that_storage_could_not_serve_is_tried_again(listen, queue):
    queue.put("hello")
    queue.faults["delete"] = [StorageBusyError("503")]

    listen(5)

    assert queue.texts == []


def test_a_message_that_cannot_be_deleted_is_seen_again(listen, queue, caplog):
    queue.put("hello")
    queue.faults["delete"] = [StorageBusyError("503") for _ in range(9)]

    listen(10)

    assert queue.texts == ["hello"]
    assert "will be seen again: 503" in caplog.text


@pytest.mark.parametrize(
    ("queue_name", "expected"),
    [
        ("work", "work-poison"),
        ("work-poison", None),
        ("a" * 56, "a" * 56 + "-poison"),
        ("a" * 57, None),
    ],
)
def test_poison_queue_name(queue_name, expected):
    assert poison_queue_name(queue_name) == expected
