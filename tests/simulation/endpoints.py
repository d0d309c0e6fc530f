"""Endpoints that answer as the plan says: fast, slow, late, wrong, or not at all."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from pushgrid.testing.subscriber import consent
from shared.http import (
    Answered,
    Exchange,
    Failure,
    LateAnswerHandler,
    NotAnswered,
    OutboundRequest,
)
from tests.simulation.kernel import Kernel, Process

FOREVER = 1e9  # seconds
_NUMBER = re.compile(rb'"n": ?(\d+)')
_STATUSES = {"401": 401, "413": 413, "404": 404, "400": 400}


class Push(NamedTuple):
    """A request with events, as it arrives at an endpoint."""

    process: Process
    subscription: str
    generation: int
    job: str  # of a replay, or empty
    numbers: tuple[int, ...]  # of its events


class Hears(Protocol):
    """Hears of pushes."""

    def pushed(self, push: Push) -> None:
        """Hear that a push begins."""

    def accepted(self, push: Push, *, is_known: bool) -> None:
        """Hear that the endpoint accepts it; whether its process learns of that in time."""

    def failed(self, push: Push, status: int) -> None:
        """Hear that its process knows that it has failed; 0: without an answer."""


class _Behaviour(NamedTuple):
    since: float
    until: float
    name: str


class _Answer(NamedTuple):
    takes: float  # seconds
    status: int  # 0: none
    headers: Mapping[str, str] = {}
    is_lost: bool = False  # it is accepted, but the connection ends before the answer


class Endpoints:
    """The endpoints of all subscriptions."""

    def __init__(self, kernel: Kernel, chance: Random, seen: Counter[str]) -> None:
        self._kernel, self._chance, self._seen = kernel, chance, seen
        self._behaviours: defaultdict[str, list[_Behaviour]] = defaultdict(list)

    def behave(self, name: str, behaviour: str, until: float) -> None:
        self._behaviours[name].append(_Behaviour(self._kernel.now, until, behaviour))

    def answer(self, name: str) -> _Answer:
        """Draw what an endpoint does with a request that arrives now."""
        now, draw = self._kernel.now, self._chance.random
        known = (each for each in reversed(self._behaviours[name]) if now < each.until)
        found = next(known, None)
        behaviour = found.name if found else "ok"
        if behaviour == "flaps":
            behaviour = "fails" if now // 60 % 2 else "ok"
        self._seen[f"endpoint {behaviour}"] += 1
        if behaviour == "slow":
            return _Answer(1 + draw() * 25, 200)
        if behaviour == "late":
            return _Answer(20 + draw() * 170, 200)
        if behaviour == "hangs":
            return _Answer(FOREVER, 0)
        if behaviour == "fails":
            return _Answer(draw(), self._chance.choice((500, 503, 502, 408, 0)))
        if behaviour == "throttles":
            wait = self._chance.choice(("1", "30", "300"))
            return _Answer(draw(), self._chance.choice((429, 503)), {"retry-after": wait})
        if behaviour == "refused":
            return _Answer(draw() * 2, 0)
        if behaviour == "lost answers":
            return _Answer(draw(), 200, is_lost=draw() < 0.5)
        return _Answer(0.01 + draw() * 0.2, _STATUSES.get(behaviour, 200))


class SimulatedPusher:
    """Implements ``Pusher`` for one process."""

    def __init__(
        self, process: Process, endpoints: Endpoints, ledger: Hears, replay_header: str
    ) -> None:
        self._process, self._endpoints, self._ledger = process, endpoints, ledger
        self._replay_header = replay_header

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        numbers = tuple(int(each) for each in _NUMBER.findall(request.body))
        if not numbers:  # a handshake, or a notice
            await asyncio.sleep(0.01)
            return consent(request)
        url = urlsplit(request.url)
        name = url.netloc.partition(".")[0]
        generation = int(url.path.strip("/").partition("-")[0])
        job = request.headers.get(self._replay_header, "")
        push = Push(self._process, name, generation, job, numbers)
        self._ledger.pushed(push)
        return await self._exchange(push, self._endpoints.answer(name), timeout, late)

    async def _exchange(
        self, push: Push, answer: _Answer, timeout: timedelta, late: LateAnswerHandler | None
    ) -> Exchange:
        seconds = timeout.total_seconds()
        await asyncio.sleep(min(answer.takes, seconds))
        if answer.takes >= seconds:
            self._ledger.failed(push, 0)
            self._answer_late(push, answer, seconds, late)
            return NotAnswered(Failure.TIMED_OUT, "no answer in time", seconds)
        answered = Answered(answer.status, answer.headers, b"", answer.takes)
        if answer.status == 200:
            self._ledger.accepted(push, is_known=not answer.is_lost)
            if not answer.is_lost:
                return answered
        if answer.is_lost or not answer.status:
            self._ledger.failed(push, 0)
            return NotAnswered(Failure.SOCKET, "the connection ended", answer.takes)
        self._ledger.failed(push, answer.status)
        return answered

    def _answer_late(
        self, push: Push, answer: _Answer, waited: float, late: LateAnswerHandler | None
    ) -> None:
        if answer.status != 200 or answer.takes >= FOREVER:
            return
        loop, left = asyncio.get_running_loop(), answer.takes - waited
        kernel = self._process.kernel
        kernel.at(kernel.now + left, lambda: self._ledger.accepted(push, is_known=False))
        if late and answer.takes <= late.within.total_seconds():
            answered = Answered(200, {}, b"", answer.takes)
            loop.call_later(left, late.report, answered)
