"""Begins no push once another process may have the event."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from shared.engine.ports import Pusher
from shared.errors import NoLease
from shared.http import Exchange, LateAnswerHandler, OutboundRequest


class LeasedPusher:
    """Pusher by another one, while *may_push*."""

    def __init__(self, pusher: Pusher, may_push: Callable[[], bool]) -> None:
        self._pusher = pusher
        self._may_push = may_push

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        """
        Do as the port `Pusher`.

        Raises:
            NoLease: the lease is over, and nothing was sent.
        """
        if not self._may_push():
            raise NoLease
        return await self._pusher.send(request, timeout, late)
