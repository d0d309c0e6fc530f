"""Requests that nobody waits for an answer to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from pushgrid.testing.memory import answered
from shared.engine.manage.notifier import AT_A_TIME, ParallelNotifier
from shared.http import Exchange, LateAnswerHandler, OutboundRequest
from shared.tasks import Tasks


class Hanging:
    """A pusher whose requests hang until they are released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.begun: list[str] = []
        self.done: list[str] = []

    async def send(
        self,
        request: OutboundRequest,
        timeout: timedelta,
        late: LateAnswerHandler | None = None,
    ) -> Exchange:
        assert timeout == timedelta(seconds=5)
        assert late is None
        self.begun.append(request.url)
        await self.released.wait()
        self.done.append(request.url)
        return answered(200)


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def request(number: int) -> OutboundRequest:
    return OutboundRequest("POST", f"https://crm.example/{number}", {}, b"")


def test_endpoints_that_hang_hold_nobody_up_and_what_was_not_begun_is_never_sent(
    loop: asyncio.Runner,
):
    pusher = Hanging()
    notifier = ParallelNotifier(pusher, loop.run, Tasks(), timeout=timedelta(milliseconds=100))

    notifier.notify([request(number) for number in range(AT_A_TIME + 5)])

    assert pusher.done == []  # it returned although no request had ended
    pusher.released.set()
    loop.run(asyncio.sleep(0.01))
    assert len(pusher.begun) == len(pusher.done) == AT_A_TIME


def test_all_are_notified_where_all_answer(loop: asyncio.Runner):
    pusher = Hanging()
    pusher.released.set()
    notifier = ParallelNotifier(pusher, loop.run, Tasks())

    notifier.notify([request(number) for number in range(100)])
    notifier.notify([])

    assert sorted(pusher.begun) == sorted(request(number).url for number in range(100))
