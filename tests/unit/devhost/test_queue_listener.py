"""What happens to a queue's messages, by the real host's rules."""

import asyncio
import base64
import contextlib
from datetime import timedelta
from typing import Any

import pytest

from devhost.errors import HostError, InvocationError
from devhost.host_json import QueueOptions
from devhost.queue_listener import QueueListener, Queues, poison_queue_name
from devhost.queue_storage import StorageBusyError, StorageRefusedError

MINUTE = 60.0


class App:
    """Stands for the functions: notes each call, and does what the test wants."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.calls: list[tuple[float, str, str]] = []
        self.seconds = self.stagger = 0.0
        self.fails = False
        self.running = 0
        self.most_running = 0

    async def invoke(self, _function, data, metadata):
        self.calls.append((round(self.loop.time(), 3), data.value, metadata["DequeueCount"].value))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(self.seconds + self.stagger * len(self.calls))
        self.running -= 1
        if self.fails:
            raise InvocationError

    @property
    def times(self):
        return [at for at, _, _ in self.calls]


@pytest.fixture
def app(loop):
    return App(loop)


@pytest.fixture
def listen(app, queue, poison, queue_function, run):
    """Run a listener for so many seconds, and let it drain; returns it."""

    def go(seconds, *, name="work", during=None, **options):
        listener = QueueListener(
            function=queue_function(queue=name),
            queues=Queues(
                source=queue,
                poison=poison if poison_queue_name(name) else None,
                poison_sent=lambda: None,
            ),
            options=QueueOptions(**{"base64": False} | options),
            invoke=app.invoke,
            uniform=lambda low, high: (low + high) / 2,
        )

        async def scene() -> None:
            running = asyncio.create_task(listener.run())
            if during:
                await during(listener)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.shield(running)
            listener.stop()
            await running
            await listener.drain()

        run(scene())
        return listener

    return go


def test_an_empty_queue_is_asked_less_and_less_often(listen, queue):
    """Waits of 100, 200, 300, 500, 900, 1700 ms, then exactly the longest."""
    listen(9.6, max_polling_interval=timedelta(seconds=2))

    assert queue.times("receive") == [0.0, 0.1, 0.3, 0.6, 1.1, 2.0, 3.7, 5.7, 7.7]


def test_after_work_the_waits_start_again(listen, queue):
    async def later(_listener):
        await asyncio.sleep(2.5)
        queue.put("late")

    listen(2, during=later)

    assert queue.times("receive")[6:11] == [3.7, 3.7, 3.8, 4.0, 4.3]


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

    listen(1, during=look)

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


def test_a_missing_queue_is_waited_for_and_never_created(listen, queue, app):
    queue.is_there = False
    queue.put("first")

    async def create(_listener):
        await asyncio.sleep(30)
        assert not queue.is_there
        queue.is_there = True

    listen(3, during=create)

    assert len(app.calls) == 1


def test_storage_that_does_not_answer_is_told_of_once_and_kept_trying(listen, queue, app, caplog):
    queue.faults["exists"] = [StorageBusyError("connection refused") for _ in range(5)]
    queue.put("hello")

    listen(10)

    assert len(app.calls) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "queue work: storage does not answer, still trying: connection refused",
        "queue work: storage answers again",
    ]


def test_storage_that_refuses_stops_the_host(listen, queue):
    queue.faults["exists"] = [StorageRefusedError("403 AuthenticationFailed")]

    with pytest.raises(HostError, match="queue work: storage refuses: 403"):
        listen(1)


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


def test_stopping_finishes_what_runs_and_receives_no_more(listen, queue, app):
    queue.put("running")
    app.seconds = 20

    async def wait_then_stop(listener):
        await asyncio.sleep(1)
        listener.stop()
        queue.put("too late")

    listen(1, during=wait_then_stop)

    assert queue.texts == ["too late"]
    assert len(app.calls) == 1


def test_stopping_while_storage_is_slow_receives_nothing(listen, queue):
    queue.put("too late")
    queue.delays["exists"] = 5

    listen(1)

    assert queue.times("receive") == []


def test_notify_ends_the_wait(listen, queue, app):
    async def add(listener):
        await asyncio.sleep(10.5)
        queue.put("now")
        listener.notify()

    listen(1, during=add, max_polling_interval=timedelta(minutes=1))

    assert app.times == [10.5]


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
