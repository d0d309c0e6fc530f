"""Endpoints that answer by a script, and threads that push to them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pushgrid.testing.memory.clock import FakeClock
from shared.engine.ports import Pusher
from shared.http import Answered, Audience, Exchange, LateAnswerHandler, OutboundRequest


class ListInbox:
    """Inbox of one thread: it never waits, but lets the clock's time pass."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._items: list[Any] = []
        self.put = self._items.append

    def wait(self, seconds: float) -> list[Any]:
        found = self._items.copy()
        self._items.clear()
        if not found:
            self._clock.advance(timedelta(seconds=seconds))
        return found


class InlineThreads:
    """PushThreads that runs every lane at once in the caller's thread; *are_scarce*: none."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.are_scarce = False

    def start(self, lane: Callable[[], None]) -> bool:
        if not self.are_scarce:
            lane()
        return not self.are_scarce

    def inbox(self) -> ListInbox:
        return ListInbox(self._clock)


class Sent(NamedTuple):
    """A request that was pushed."""

    request: OutboundRequest
    timeout: timedelta
    at: datetime
    late: LateAnswerHandler | None = None


class ScriptedPusher:
    """Pusher that answers by its script: per URL in turn, the last one for ever; else a 200."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._scripts: dict[str, list[Exchange]] = {}
        self._lock = threading.Lock()
        self.takes = timedelta()  # of the clock's time, each request
        self.sent: list[Sent] = []

    def script(self, url: str, *exchanges: Exchange) -> None:
        """Answer requests to *url* with *exchanges*."""
        self._scripts[url] = list(exchanges)

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        with self._lock:
            self.sent.append(Sent(request, timeout, self._clock.now(), late))
            self._clock.advance(self.takes)
            script = self._scripts.get(request.url) or [answered(200)]
            return script.pop(0) if len(script) > 1 else script[0]


class MemoryTokens:
    """Tokens that remembers for whom they were fetched."""

    def __init__(self) -> None:
        self.fetched: list[Audience] = []

    def fetch(self, audience: Audience) -> None:
        self.fetched.append(audience)


class InlineNotifier:
    """Notifier that sends at once."""

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher

    def notify(self, requests: Sequence[OutboundRequest]) -> None:
        for request in requests:
            self._pusher.send(request, timedelta(seconds=5))


def answered(
    status: int, body: bytes = b"", headers: Mapping[str, str] | None = None, seconds: float = 0.1
) -> Answered:
    """Build an answer."""
    return Answered(status=status, headers=headers or {}, body=body, seconds=seconds)
