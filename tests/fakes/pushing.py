"""Endpoints that answer by a script, and the pool that pushes to them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from shared.engine.ports import PushResult
from shared.http import Answered, Audience, Exchange, LateAnswerHandler, OutboundRequest
from tests.fakes.clock import FakeClock

T = TypeVar("T")
R = TypeVar("R", bound=PushResult)


class InlinePushPool:
    """PushPool that does all work at once in the caller's thread, but for the last *unstarted*."""

    def __init__(self, unstarted: int = 0) -> None:
        self.unstarted = unstarted
        self.is_slow = self.is_detached = False
        self.keys: list[Hashable] = []
        self.stop_after: list[timedelta] = []

    def run(
        self,
        key: Hashable,
        items: Sequence[T],
        work: Callable[[T], R],
        *,
        stop_after: timedelta,
        detach: Callable[[], bool],
    ) -> Iterator[list[tuple[T, R]]]:
        self.stop_after.append(stop_after)  # no time passes here
        self.keys.append(key)
        if self.is_slow:
            self.is_detached = detach()
        for item in items[: max(0, len(items) - self.unstarted)]:
            yield [(item, work(item))]

    def pace(self, key: Hashable, count: int) -> timedelta:
        del key, count
        return timedelta(seconds=10)


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

    def __init__(self, pusher: ScriptedPusher) -> None:
        self._pusher = pusher

    def notify(self, requests: Sequence[OutboundRequest]) -> None:
        for request in requests:
            self._pusher.send(request, timedelta(seconds=5))


def answered(
    status: int, body: bytes = b"", headers: Mapping[str, str] | None = None, seconds: float = 0.1
) -> Answered:
    """Build an answer."""
    return Answered(status=status, headers=headers or {}, body=body, seconds=seconds)
