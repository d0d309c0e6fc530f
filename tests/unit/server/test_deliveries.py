"""Leases are taken while there is room, and each is ended or given back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from server.deliveries import Deliveries
from shared.engine.ports import Queue
from shared.engine.ports.leases import Lease
from shared.errors import MalformedMessage, StorageUnavailable


class ScriptedLeases:
    """Hands over the *messages* of ``deliveries``, and keeps what became of each."""

    def __init__(self, *messages: bytes) -> None:
        self.lost: Callable[[], object] = lambda: None
        self.messages = deque(messages)
        self.asked: list[int] = []
        self.ended: list[bytes] = []
        self.back: list[bytes] = []
        self.faults: deque[str] = deque()  # the methods that fail next
        self.changed = asyncio.Event()

    async def hand_back(self) -> None:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError("it is the home that is closed")

    async def claim(self, queue: Queue, most: int) -> Sequence[Lease]:
        if queue is not Queue.DELIVERIES:
            await asyncio.Event().wait()
        self._fail("claim")
        self.asked.append(most)
        if not self.messages:
            self.changed.set()
            await asyncio.Event().wait()
        count = min(most, len(self.messages))
        return [Lease(queue, self.messages.popleft(), None) for _ in range(count)]

    async def end(self, lease: Lease) -> None:
        self._fail("end")
        self.ended.append(lease.body)

    async def give_back(self, lease: Lease) -> None:
        self.back.append(lease.body)

    def _fail(self, method: str) -> None:
        if self.faults and self.faults[0] == method:
            self.faults.popleft()
            raise StorageUnavailable


def run(
    home: ScriptedLeases,
    test: Callable[[Deliveries], Coroutine[Any, Any, None]],
    deliver: Callable[[Lease], Coroutine[Any, Any, None]],
    most: int = 10,
) -> None:
    async def go() -> None:
        home.changed = asyncio.Event()
        deliveries = Deliveries(home, deliver, most)
        deliveries.begin()
        async with asyncio.timeout(60):
            await test(deliveries)

    asyncio.run(go())


async def accept(_: Lease) -> None:
    await asyncio.sleep(0)


def test_what_was_delivered_ends_and_what_could_not_be_handled_comes_again():
    home = ScriptedLeases(b"good", b"bad", b"good too")

    async def deliver(lease: Lease) -> None:
        assert lease.queue is Queue.DELIVERIES
        if lease.body == b"bad":
            raise MalformedMessage

    async def test(deliveries: Deliveries) -> None:
        await home.changed.wait()
        await deliveries.stop_taking()
        assert await deliveries.finish(60) == 0

    run(home, test, deliver)
    assert (home.ended, home.back) == ([b"good", b"good too"], [b"bad"])


def test_nothing_more_is_pushed_of_what_was_lost_and_what_is_taken_then_is_delivered():
    """It is ended, which leaves it to whoever has it, and makes room."""
    home = ScriptedLeases(b"old", b"not begun", b"new")
    pushed = []

    async def deliver(lease: Lease) -> None:
        pushed.append(lease.body)
        if lease.body == b"old":
            home.lost()
            await asyncio.Event().wait()

    async def test(deliveries: Deliveries) -> None:
        await home.changed.wait()
        await deliveries.stop_taking()
        assert await deliveries.finish(60) == 0

    run(home, test, deliver, most=2)
    assert pushed == [b"old", b"new"]
    assert sorted(home.ended) == [b"new", b"not begun", b"old"]


def test_no_more_are_taken_than_there_is_room_for():
    home = ScriptedLeases(*(b"%d" % number for number in range(5)))
    may_end = asyncio.Event()

    async def deliver(lease: Lease) -> None:
        if lease.body == b"0":
            await may_end.wait()

    async def test(deliveries: Deliveries) -> None:
        await home.changed.wait()
        assert deliveries.under_way == 1
        assert home.asked == [2, 1, 1, 1, 1]
        may_end.set()
        for _ in range(10):
            await asyncio.sleep(0)

    run(home, test, deliver, most=2)
    assert len(home.ended) == 5


@pytest.mark.parametrize("fault", ["claim", "end"])
def test_a_home_that_fails_for_a_while_stops_nothing(monkeypatch, fault):
    monkeypatch.setattr("server.deliveries._AGAIN_SECONDS", 0.0)
    home = ScriptedLeases(b"1", b"2")
    home.faults = deque([fault])

    async def test(deliveries: Deliveries) -> None:
        await home.changed.wait()
        await deliveries.stop_taking()
        assert await deliveries.finish(60) == 0

    run(home, test, accept)
    assert sorted(home.ended) == [b"1", b"2"]


def test_what_is_not_finished_in_time_is_neither_ended_nor_given_back():
    home = ScriptedLeases(b"1", b"2")

    async def deliver(lease: Lease) -> None:
        if lease.body == b"1":
            await asyncio.Event().wait()

    async def test(deliveries: Deliveries) -> None:
        await home.changed.wait()
        await deliveries.stop_taking()
        assert await deliveries.finish(0) == 1

    run(home, test, deliver)
    assert (home.ended, home.back) == ([b"2"], [])
