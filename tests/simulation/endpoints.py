"""Endpoints that answer as the plan says: fast, slow, late, wrong, or not at all."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random
from typing import NamedTuple
from urllib.parse import urlsplit

from pushgrid.testing.subscriber import consent
from shared.delivery.requests.push_request import REPLAY_HEADER
from shared.http import (
    Answered,
    Exchange,
    Failure,
    LateAnswerHandler,
    NotAnswered,
    OutboundRequest,
)
from tests.simulation.kernel import Kernel, Process
from tests.simulation.ledger import Ledger, Push

OK = 200
FOREVER = 1e9  # seconds
_NUMBER = re.compile(rb'"n": ?(\d+)')


class Answer(NamedTuple):
    """What an endpoint does with a request."""

    takes: float  # seconds
    status: int  # 0: it does not answer
    headers: Mapping[str, str] = {}
    is_lost: bool = False  # it is accepted, but the connection ends before the answer


_DRAW: Mapping[str, Callable[[Random], Answer]] = {
    "slow": lambda chance: Answer(chance.uniform(1, 26), OK),
    "late": lambda chance: Answer(
        chance.choice((chance.uniform(20, 190), chance.uniform(29, 45), FOREVER)), OK
    ),
    "hangs": lambda _: Answer(FOREVER, 0),
    "fails": lambda chance: Answer(chance.random(), chance.choice((500, 503, 502, 408, 0))),
    "throttles": lambda chance: Answer(
        chance.random(),
        chance.choice((429, 503)),
        {"retry-after": chance.choice(("1", "30", "300"))},
    ),
    "refused": lambda chance: Answer(chance.uniform(0, 2), 0),
    "lost answers": lambda chance: Answer(chance.random(), OK, is_lost=chance.random() < 0.5),
}


class Endpoints:
    """The endpoints of all subscriptions, which behave as a plan says."""

    def __init__(self, kernel: Kernel, chance: Random, seen: Counter[str]) -> None:
        self._kernel, self._chance, self._seen = kernel, chance, seen
        self._behaviours: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)

    def behave(self, name: str, behaviour: str, until: float) -> None:
        self._behaviours[name].append((until, behaviour))

    def answer(self, name: str) -> Answer:
        """Draw what an endpoint does with a request that arrives now."""
        now, known = self._kernel.now, reversed(self._behaviours[name])
        behaviour = next((each for until, each in known if now < until), "ok")
        if behaviour == "flaps":
            behaviour = "fails" if now // 60 % 2 else "ok"
        self._seen[f"endpoint {behaviour}"] += 1
        if draw := _DRAW.get(behaviour):
            return draw(self._chance)
        return Answer(self._chance.uniform(0.01, 0.2), OK if behaviour == "ok" else int(behaviour))


class SimulatedPusher:
    """Implements ``Pusher`` for one process."""

    def __init__(self, process: Process, endpoints: Endpoints, ledger: Ledger) -> None:
        self._process, self._endpoints, self._ledger = process, endpoints, ledger

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        numbers = tuple(int(each) for each in _NUMBER.findall(request.body))
        if not numbers:  # a handshake, or a notice
            await asyncio.sleep(0.01)
            return consent(request)
        url = urlsplit(request.url)
        name = url.netloc.partition(".")[0]
        job = request.headers.get(REPLAY_HEADER, "")
        made = int(request.headers["aeg-delivery-count"])
        push = Push(self._process, name, job, numbers, made, url.path, request.body)
        self._ledger.pushed(push)
        return await self._exchange(push, self._endpoints.answer(name), timeout, late)

    async def _exchange(
        self, push: Push, answer: Answer, timeout: timedelta, late: LateAnswerHandler | None
    ) -> Exchange:
        seconds = timeout.total_seconds()
        await asyncio.sleep(min(answer.takes, seconds))
        if answer.takes >= seconds:
            self._ledger.failed(push, 0)
            self._answer_late(push, answer, seconds, late)
            return NotAnswered(Failure.TIMED_OUT, "no answer in time", seconds)
        answered = Answered(answer.status, answer.headers, b"", answer.takes)
        if answer.status == OK:
            self._ledger.accepted(push, is_known=not answer.is_lost)
            if not answer.is_lost:
                return answered
        if answer.is_lost or not answer.status:
            self._ledger.failed(push, 0)
            return NotAnswered(Failure.SOCKET, "the connection ended", answer.takes)
        self._ledger.failed(push, answer.status)
        return answered

    def _answer_late(
        self, push: Push, answer: Answer, waited: float, late: LateAnswerHandler | None
    ) -> None:
        if answer.status != OK or answer.takes >= FOREVER:
            return
        loop, left = asyncio.get_running_loop(), answer.takes - waited
        kernel = self._process.kernel
        kernel.at(kernel.now + left, lambda: self._ledger.accepted(push, is_known=False))
        if late and answer.takes <= late.within.total_seconds():
            answered = Answered(OK, {}, b"", answer.takes)
            loop.call_later(left, late.report, answered)
