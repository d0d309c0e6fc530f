"""Begins no push once another process may have the event."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from shared.engine.ports import Pusher
from shared.http import Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest

_NO_LEASE = "the lease of this server is over: others may have the event"


class LeasedPusher:
    """Pusher by another one, while *has_lease*; what it does not send lacks something of ours."""

    def __init__(self, pusher: Pusher, has_lease: Callable[[], bool]) -> None:
        self._pusher = pusher
        self._has_lease = has_lease

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        if not self._has_lease():
            return NotAnswered(Failure.SHORTAGE, _NO_LEASE, 0.0)
        return await self._pusher.send(request, timeout, late)
