"""Endpoints that answer by a script, at once or when they are let go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from pushgrid.testing.memory.clock import FakeClock
from shared.engine.ports import Pusher
from shared.http import (
    Answered,
    Exchange,
    Failure,
    LateAnswerHandler,
    NotAnswered,
    OutboundRequest,
)


class Sent(NamedTuple):
    """A request that was pushed."""

    request: OutboundRequest
    timeout: timedelta
    at: datetime
    late: LateAnswerHandler | None = None


class ScriptedPusher:
    """
    Pusher that answers by its script: per URL in turn, the last one for ever; else a 200.

    Each request *takes* some of the loop's time. One that takes longer than its timeout has timed
    out, and its answer is a late one.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._scripts: dict[str, list[Exchange]] = {}
        self.takes = timedelta()
        self.sent: list[Sent] = []

    def script(self, url: str, *exchanges: Exchange) -> None:
        """Answer requests to *url* with *exchanges*; without any, as if it had no script."""
        self._scripts[url] = list(exchanges)

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        self.sent.append(Sent(request, timeout, self._clock.now(), late))
        script = self._scripts.get(request.url) or [answered(200)]
        exchange = script.pop(0) if len(script) > 1 else script[0]
        if self.takes > timeout:
            await asyncio.sleep(timeout.total_seconds())
            if late and self.takes <= late.within and isinstance(exchange, Answered):
                left = (self.takes - timeout).total_seconds()
                asyncio.get_running_loop().call_later(left, late.report, exchange)
            return NotAnswered(Failure.TIMED_OUT, "no answer in time", timeout.total_seconds())
        if self.takes:
            await asyncio.sleep(self.takes.total_seconds())
        return exchange


class HeldPusher:
    """
    Pusher that holds requests with some text in their URL or body until they are let go.

    What is held longer than its timeout has timed out; its answer is a late one.
    """

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher
        self._let_go: dict[str, asyncio.Event] = {}
        self._late: set[asyncio.Task[None]] = set()
        self.held: list[str] = []  # a text for each request, in the order of their sends

    def hold(self, *marks: str) -> None:
        """Hold all requests with one of these texts from now on."""
        for mark in marks:
            self._let_go[mark] = asyncio.Event()

    def let_go(self, *marks: str) -> None:
        """Let go what is held, or only the requests with these texts, and hold no more of them."""
        for mark in marks or tuple(self._let_go):
            self._let_go.pop(mark).set()

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        text = f"{request.url} {request.body.decode()}"
        mark = next((each for each in self._let_go if each in text), None)
        if mark is None:
            return await self._pusher.send(request, timeout, late)
        let_go = self._let_go[mark]
        self.held.append(mark)
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                await let_go.wait()
        except TimeoutError:
            if late:
                waiting = asyncio.create_task(self._answer_late(let_go, request, timeout, late))
                self._late.add(waiting)
                waiting.add_done_callback(self._late.discard)
            return NotAnswered(Failure.TIMED_OUT, "it is held", timeout.total_seconds())
        finally:
            self.held.remove(mark)
        return await self._pusher.send(request, timeout, late)

    async def _answer_late(
        self,
        let_go: asyncio.Event,
        request: OutboundRequest,
        timeout: timedelta,
        late: LateAnswerHandler,
    ) -> None:
        left = late.within - timeout
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left.total_seconds()):
                await let_go.wait()
                exchange = await self._pusher.send(request, left)
            if isinstance(exchange, Answered):
                late.report(exchange)


def answered(
    status: int, body: bytes = b"", headers: Mapping[str, str] | None = None, seconds: float = 0.1
) -> Answered:
    """Build an answer."""
    return Answered(status=status, headers=headers or {}, body=body, seconds=seconds)
