"""Puts of several callers side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from shared.adapters.storage.queues import PUTS, SIDE_BY_SIDE, StorageSender
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable
from tests.without_loop import at_once

PATIENCE = 60  # seconds after which a test that hangs fails


def sender_with(
    put: Callable[[str], Awaitable[Receipt]], visible: Callable[[Queue], object] = lambda _: None
) -> StorageSender:
    """Return a sender whose single put is the test's."""
    nothing: Any = None
    sender = StorageSender(nothing, nothing, at_once, visible)
    put_one: Any = lambda _, text, **__: put(text)  # noqa: E731 - a method
    sender._message_put.put = put_one  # type: ignore[method-assign]
    return sender


def run(coroutine: Any) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await coroutine

    return asyncio.run(bounded())


def test_a_few_puts_do_not_wait_for_many() -> None:
    """Several large commits have not a put of each of their texts under way."""

    async def put_beside_others() -> tuple[bool, Sequence[object]]:
        may_end, begun = asyncio.Event(), asyncio.Semaphore(0)

        async def put(text: str) -> Receipt:
            if text == "slow":
                begun.release()
                await may_end.wait()
            return Receipt(text, "")

        sender = sender_with(put)
        large = [
            asyncio.create_task(sender.put_all(Queue.DELIVERIES, ["slow"] * 50)) for _ in range(3)
        ]
        for _ in range(3 * SIDE_BY_SIDE):
            await begun.acquire()
        quick = await sender.put_all(Queue.DELIVERIES, ["quick"] * 5)
        more_began = not begun.locked()
        may_end.set()
        await asyncio.gather(*large)
        return more_began, quick

    more_began, quick = run(put_beside_others())

    assert not more_began
    assert quick == [("quick", "")] * 5


def test_a_queue_that_hangs_keeps_no_other_queues_puts_waiting() -> None:
    """Publishers are answered while retries can't be written."""

    async def put_beside_others() -> Receipt:
        may_end = asyncio.Event()

        async def put(text: str) -> Receipt:
            if text == "hangs":
                await may_end.wait()
            return Receipt(text, "")

        sender = sender_with(put)
        hanging = [asyncio.create_task(sender.put(Queue.RETRIES, "hangs")) for _ in range(2 * PUTS)]
        await asyncio.sleep(0)
        stored = await sender.put(Queue.DELIVERIES, "published")
        may_end.set()
        await asyncio.gather(*hanging)
        return stored

    assert run(put_beside_others()) == ("published", "")


def test_the_puts_of_a_process_are_bounded() -> None:
    under_way, most = 0, 0

    async def put(text: str) -> Receipt:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return Receipt(text, "")

    async def put_much() -> None:
        sender = sender_with(put)
        await asyncio.gather(*(sender.put_all(Queue.RETRIES, ["x"] * 20) for _ in range(20)))

    run(put_much())

    assert most == PUTS


def test_each_text_is_put_once_and_its_fault_is_its_own() -> None:
    seen: list[int] = []

    async def put(text: str) -> Receipt:
        seen.append(int(text))
        await asyncio.sleep(0)
        if int(text) % 7 == 0:
            raise StorageUnavailable
        return Receipt(text, "")

    async def put_all() -> Sequence[object]:
        texts = [str(number) for number in range(100)]
        return await sender_with(put).put_all(Queue.DELIVERIES, texts)

    puts = run(put_all())

    assert sorted(seen) == list(range(100))
    failed = [place for place, put in enumerate(puts) if isinstance(put, StorageUnavailable)]
    assert failed == list(range(0, 100, 7))
    assert puts[1:7] == [(str(number), "") for number in range(1, 7)]


def test_a_bug_is_raised_after_what_was_begun() -> None:
    ended = []

    async def put(text: str) -> Receipt:
        if text == "a":
            raise KeyError(text)
        await asyncio.sleep(0)
        ended.append(text)
        return Receipt(text, "")

    async def put_all() -> None:
        await sender_with(put).put_all(Queue.DELIVERIES, ["a", "b", "c"])

    with pytest.raises(KeyError):
        run(put_all())

    assert ended == ["b", "c"]


def test_the_host_hears_of_messages_that_are_stored_and_visible() -> None:
    seen: list[Queue] = []

    async def put(text: str) -> Receipt:
        if text == "lost":
            raise StorageUnavailable
        assert not seen
        return Receipt(text, "")

    sender = sender_with(put, seen.append)

    run(sender.put(Queue.RETRIES, "later", timedelta(seconds=1)))
    run(sender.put_all(Queue.DELIVERIES, ["lost", "now"]))

    assert seen == [Queue.DELIVERIES]


def test_a_queue_is_made_where_the_answer_that_it_is_missing_was_cut_off() -> None:
    """Its status was read, and its error code was not."""
    puts: list[str] = []
    made: list[Queue] = []

    async def put(text: str) -> Receipt:
        puts.append(text)
        if not made:
            missing = HttpResponseError("cut off")
            missing.status_code = 404
            raise missing
        return Receipt(text, "")

    sender = sender_with(put)
    sender._create = made.append  # type: ignore[method-assign, assignment]

    assert run(sender.put(Queue.RETRIES, "text")) == ("text", "")
    assert (puts, made) == (["text", "text"], [Queue.RETRIES])
