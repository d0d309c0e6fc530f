"""
What a queue listener does with messages and when it polls, on a driven clock.

`tests/host` has the rules that show from outside; here are exact times and storage failures.
"""

import asyncio
from contextlib import nullcontext
from datetime import timedelta

import pytest

from devhost.errors import HostError
from devhost.host import finish
from devhost.queue.listener import poison_queue_name
from devhost.storage.errors import (
    LONGEST_OUTAGE,
    StorageBusyError,
    StorageRefusedError,
    StorageUnreachableError,
)

MINUTE = 60.0


def test_a_message_moves_to_poison_at_once_after_its_last_call(listen, queue, poison, app):
    queue.put("bad")
    app.fails = True

    listen(30, max_dequeue_count=5, visibility_timeout=timedelta(seconds=1))

    assert len(app.calls) == 5
    assert poison.times("send") == app.times[-1:]


def test_a_failed_message_is_in_the_poison_queue_before_it_is_deleted(listen, queue, poison, app):
    """A host that ends between the two leaves a duplicate instead of losing the message."""
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


def test_a_message_dequeued_too_often_goes_to_poison_without_a_call(listen, queue, poison, app):
    queue.put("old", dequeue_count=5)

    listen(1, max_dequeue_count=5)

    assert app.calls == []
    assert poison.texts == ["old"]
    assert queue.texts == []


@pytest.mark.parametrize(
    ("failures", "minutes", "renewals"),
    [(0, 16, [300.0, 600.0, 900.0]), (2, 9.9, [300.0, 375.0, 450.0])],
    ids=["every five minutes", "sooner after a failure"],
)
def test_a_long_invocation_renews_its_message_and_deletes_it_with_the_last_receipt(
    listen, queue, app, *, failures, minutes, renewals
):
    queue.put("slow")
    queue.faults["hide"] = [StorageBusyError("503") for _ in range(failures)]
    app.seconds = minutes * MINUTE

    listen((minutes + 1) * MINUTE)

    assert queue.times("hide") == renewals
    assert len(app.calls) == 1
    assert queue.texts == []


def test_a_renewal_in_progress_is_awaited_before_the_delete(listen, queue, app):
    queue.put("slow")
    queue.delays["hide"] = 10
    app.seconds = 5 * MINUTE + 5

    listen(6 * MINUTE)

    assert queue.texts == []
    assert queue.times("delete") == [310.0]


def test_a_delete_that_storage_could_not_serve_is_tried_for_25_seconds(listen, queue, app):
    """A shorter outage repeats no delivery, as on Azure."""
    queue.put("hello")
    queue.faults["delete"] = [StorageBusyError("503")] * 5

    listen(25)

    assert queue.times("delete") == [0.0, 0.8, 2.4, 5.6, 12.0, 24.8]
    assert queue.texts == []
    assert len(app.calls) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("work", "work-poison"),
        ("work-poison", None),
        ("a" * 56, "a" * 56 + "-poison"),
        ("a" * 57, None),
    ],
)
def test_poison_queue_name(name, expected):
    assert poison_queue_name(name) == expected


def test_an_empty_queue_is_polled_less_and_less_often(listen, queue):
    """The waits are 100, 200, 300, 500, 900, 1700 ms, then exactly the longest."""
    listen(9.6, max_polling_interval=timedelta(seconds=2))

    assert queue.times("receive") == [0.0, 0.1, 0.3, 0.6, 1.1, 2.0, 3.7, 5.7, 7.7]


def lines_of_existence(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    found = [(each.levelname, each.getMessage()) for each in caplog.records]
    return [line for line in found if "exist" in line[1]]


def test_a_queue_that_is_deleted_is_reported_and_found_again(listen, queue, app, caplog):
    """Deleted while its message is in hand."""
    queue.put("slow")
    app.seconds = 2

    async def delete_and_create(_listener):
        await asyncio.sleep(1)
        queue.is_there = False
        await asyncio.sleep(9)
        queue.is_there = True
        queue.put("after")

    listen(9, during=delete_and_create)

    assert [text for _, text, _ in app.calls][-1] == "after"
    assert lines_of_existence(caplog) == [
        ("WARNING", "queue work does not exist, waiting for it"),
        ("WARNING", "queue work exists now"),
    ]
    assert not any(each.exc_info for each in caplog.records)


def test_a_queue_that_never_existed_is_a_line_for_who_looks_closely(listen, queue, caplog):
    queue.is_there = False

    with caplog.at_level("DEBUG", "devhost"):
        listen(30)

    assert lines_of_existence(caplog) == [("DEBUG", "queue work does not exist, waiting for it")]


def test_storage_that_rejects_the_host_stops_it(listen, queue):
    queue.faults["receive"] = [StorageRefusedError("403 AuthenticationFailed")]

    with pytest.raises(HostError, match="queue work: storage rejects the host: 403"):
        listen(1)


@pytest.mark.parametrize(
    ("faults", "ends_after"),
    [
        ([StorageUnreachableError("ConnectionRefusedError")] * 27, None),
        ([StorageUnreachableError("ConnectionRefusedError")] * 99, 24.0),
        ([StorageBusyError("503")] * 99, None),
        ([StorageBusyError("503")] * 27 + [StorageUnreachableError("refused")] * 23, None),
    ],
    ids=["refused for a shorter time", "refused", "503 for longer", "first 503, then refused"],
)
def test_a_host_that_ends_as_azure_ends_without_storage(listen, queue, *, faults, ends_after):
    """Source: measured, host 4.1037.0; it survives 5xx, and 12 to 20 s without a connection."""
    queue.faults["receive"] = faults
    options = {"longest_outage": LONGEST_OUTAGE, "max_polling_interval": timedelta(seconds=1)}

    with pytest.raises(HostError, match="out of reach") if ends_after else nullcontext():
        listen(60, **options)

    assert ends_after is None or queue.times("receive")[-1] == ends_after


def test_other_hosts_live_on_without_storage(listen, queue):
    queue.faults["receive"] = [StorageUnreachableError("ConnectionRefusedError")] * 99

    listen(60, max_polling_interval=timedelta(seconds=1))

    assert len(queue.times("receive")) > 50


def test_what_was_put_before_a_poll_is_not_polled_for_again(listen, queue):
    """Messages that are found anyway cost no empty poll."""

    async def add(listener):
        await asyncio.sleep(10.5)
        queue.put("now")
        listener.notify()
        listener.notify()

    listen(1, during=add, max_polling_interval=timedelta(minutes=1))

    after = [each for each in queue.times("receive") if each >= 10.5]
    assert after[:2] == [10.5, 10.6]  # found, and then as after any work


def test_a_queue_that_is_missing_is_not_polled_all_the_time(listen, queue):
    queue.is_there = False

    async def tell(listener):
        await asyncio.sleep(10.5)
        listener.notify()

    listen(1, during=tell, max_polling_interval=timedelta(seconds=10))

    assert len([each for each in queue.times("receive") if each >= 10.5]) == 1


def test_many_puts_end_a_wait_every_20_ms(listen, queue, app):
    """However many they are: a poll finds what was put meanwhile, and costs as much as a put."""

    async def add(listener):
        await asyncio.sleep(10.5)
        for number in range(10):
            queue.put(str(number))
            listener.notify()
            await asyncio.sleep(0.008)

    listen(1, during=add, max_polling_interval=timedelta(minutes=1))

    found = [10.5, 10.52, 10.54, 10.56, 10.58]
    assert [each for each in queue.times("receive") if each >= 10.5][:6] == [*found, 10.68]
    assert sorted(set(app.times)) == found


def test_full_polls_after_a_put_follow_each_other_at_once(listen, queue, app):
    async def add(listener):
        await asyncio.sleep(10.5)
        for number in range(10):
            queue.put(str(number))
        listener.notify()

    listen(1, during=add, batch_size=4, max_polling_interval=timedelta(minutes=1))

    assert app.times == [10.5] * 10


def test_a_message_that_arrives_while_the_host_stops_is_finished(loop, queue, app, a_listener):
    """Storage answers a request that was sent before the stop, and the function takes a while."""
    queue.put("late")
    queue.delays["receive"], app.seconds = 5, 3
    listener = a_listener()

    async def scene() -> None:
        running = asyncio.create_task(listener.run())
        await asyncio.sleep(1)
        listener.stop()
        await finish([running], [listener.drain])

    loop.run(scene())

    assert queue.texts == []
