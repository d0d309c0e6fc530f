"""Sends notices to endpoints side by side, and waits for their answers only briefly."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import timedelta

from shared.engine.ports import OnLoop, Pusher
from shared.http import OutboundRequest
from shared.tasks import Tasks

AT_A_TIME = 16
_TIMEOUT = timedelta(seconds=5)
_CALLER_WAITS = timedelta(seconds=3)


class ParallelNotifier:
    """
    Notifies endpoints, best effort, for callers on threads.

    After *timeout* requests under way go on; those that have not begun are never sent.
    """

    def __init__(
        self, pusher: Pusher, run: OnLoop, tasks: Tasks, timeout: timedelta = _CALLER_WAITS
    ) -> None:
        self._pusher = pusher
        self._run = run
        self._tasks = tasks
        self._timeout = timeout.total_seconds()

    def notify(self, requests: Sequence[OutboundRequest]) -> None:
        self._run(self._notify(deque(requests)))

    async def _notify(self, waiting: deque[OutboundRequest]) -> None:
        if not waiting:
            return
        senders = [self._tasks.spawn(self._send(waiting)) for _ in range(AT_A_TIME)]
        await asyncio.wait(senders, timeout=self._timeout)
        waiting.clear()

    async def _send(self, waiting: deque[OutboundRequest]) -> None:
        while waiting:
            await self._pusher.send(waiting.popleft(), _TIMEOUT)
