"""When a queue's listener asks for messages, and when it stops."""

import asyncio
from datetime import timedelta

import pytest

from devhost.errors import HostError
from devhost.storage.errors import StorageBusyError, StorageRefusedError


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

    still_trying = "storage fails, still trying"
    assert len(app.calls) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"queue work: {still_trying}: connection refused",
        "queue work: storage works again",
    ]


def test_storage_that_fails_in_many_ways_is_told_of_once(listen, queue, caplog):
    reasons = ("503 ServerBusy", "connection refused", "no answer in time")
    queue.faults["exists"] = [StorageBusyError(reason) for reason in reasons * 3]

    listen(20)

    assert [record.getMessage() for record in caplog.records] == [
        "queue work: storage fails, still trying: 503 ServerBusy",
        "queue work: storage works again",
    ]


def test_storage_that_refuses_stops_the_host(listen, queue):
    queue.faults["exists"] = [StorageRefusedError("403 AuthenticationFailed")]

    with pytest.raises(HostError, match="queue work: storage refuses: 403"):
        listen(1)


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
