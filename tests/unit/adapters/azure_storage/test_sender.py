"""Puts of several callers side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from shared.adapters.azure_storage.sender import PUTS, SIDE_BY_SIDE, StorageSender
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable
from tests.without_loop import at_once

PATIENCE = 60  # seconds after which a test that hangs fails
FEW_TURNS = 10  # of the loop: more than a put takes to begin


class Puts:
    """The request that puts a text, whose outcome it is; ``slow`` waits for *may_end*."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.most = 0  # under way at a time
        self.may_end = asyncio.Event()
        self.made: list[Queue] = []
        self.visible: list[Queue] = []
        nothing: Any = None
        self.sender = StorageSender(nothing, nothing, at_once, self.visible.append)
        self.sender._message_put.put = self._put  # type: ignore[method-assign, assignment]
        self.sender._create = self.made.append  # type: ignore[method-assign, assignment]

    async def _put(self, _: str, text: str, **__: int) -> Receipt:
        self.begun.append(text)
        self.most = max(self.most, len(self.begun) - len(self.ended))
        await asyncio.sleep(0)
        if text == "slow":
            await self.may_end.wait()
        self.ended.append(text)
        if text == "lost":
            raise StorageUnavailable
        if text == "bug":
            raise KeyError(text)
        if text == "missing" and not self.made:
            missing = HttpResponseError("cut off")
            missing.status_code = 404
            raise missing
        return Receipt(text, "")

    async def begin(self, *puts: Any) -> asyncio.Future[Any]:
        """Begin *puts*, and all that can begin with them."""
        together = asyncio.gather(*puts)
        for _ in range(FEW_TURNS):
            await asyncio.sleep(0)
        return together


@pytest.fixture
def puts() -> Puts:
    return Puts()


def run(coroutine: Any) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


def test_a_few_puts_do_not_wait_for_many(puts: Puts) -> None:
    """Several large commits have not a put of each of their texts under way."""

    async def put_beside_others() -> Sequence[object]:
        commits = (puts.sender.put_all(Queue.DELIVERIES, ["slow"] * 50) for _ in range(3))
        large = await puts.begin(*commits)
        quick = await puts.sender.put_all(Queue.DELIVERIES, ["quick"] * 5)
        assert puts.begun.count("slow") == 3 * SIDE_BY_SIDE
        puts.may_end.set()
        await large
        return quick

    assert run(put_beside_others()) == [("quick", "")] * 5


def test_a_queue_that_hangs_keeps_no_other_queues_puts_waiting(puts: Puts) -> None:
    """Publishers are answered while retries can't be written."""

    async def put_beside_others() -> None:
        retries = (puts.sender.put(Queue.RETRIES, "slow") for _ in range(2 * PUTS))
        hanging = await puts.begin(*retries)
        await puts.sender.put(Queue.DELIVERIES, "published")
        puts.may_end.set()
        await hanging

    run(put_beside_others())

    assert puts.ended[0] == "published"
    assert puts.most == PUTS + 1


def test_each_text_is_put_once_and_its_fault_is_its_own(puts: Puts) -> None:
    texts = ["one", "lost", "two"] * 20

    ended = run(puts.sender.put_all(Queue.DELIVERIES, texts))

    assert sorted(puts.begun) == sorted(texts)
    is_lost = [isinstance(each, StorageUnavailable) for each in ended]
    assert is_lost == [False, True, False] * 20
    assert [each for each in ended if isinstance(each, Receipt)] == [("one", ""), ("two", "")] * 20


def test_a_bug_is_raised_after_what_was_begun(puts: Puts) -> None:
    with pytest.raises(KeyError):
        run(puts.sender.put_all(Queue.DELIVERIES, ["bug", "b", "c"]))

    assert puts.ended == ["bug", "b", "c"]


def test_the_host_hears_of_messages_that_are_stored_and_visible(puts: Puts) -> None:
    run(puts.sender.put(Queue.RETRIES, "later", timedelta(seconds=1)))
    run(puts.sender.put_all(Queue.DELIVERIES, ["lost", "now"]))

    assert puts.visible == [Queue.DELIVERIES]


def test_a_queue_is_made_where_the_answer_that_it_is_missing_was_cut_off(puts: Puts) -> None:
    """Its status was read, and its error code was not."""
    assert run(puts.sender.put(Queue.RETRIES, "missing")) == ("missing", "")
    assert (puts.begun, puts.made) == (["missing"] * 2, [Queue.RETRIES])
