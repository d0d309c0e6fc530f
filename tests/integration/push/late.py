"""Who waits for late answers, and endpoints that give them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from shared.http import Answered, Exchange, Failure, LateAnswerHandler, OutboundRequest
from tests.integration.push.on_loop import PATIENCE, HttpPusher, failure_of

TIMEOUT = timedelta(seconds=0.3)
MINUTE = timedelta(minutes=1)


class Waiting:
    """Sends requests whose late answers are kept."""

    def __init__(self, pusher: HttpPusher) -> None:
        self.pusher = pusher
        self._reported: SimpleQueue[Answered] = SimpleQueue()

    def send(
        self,
        url: str,
        timeout: timedelta = TIMEOUT,
        until: timedelta = MINUTE,
        body: bytes = b"[]",
    ) -> Exchange:
        request = OutboundRequest(method="POST", url=url, headers={}, body=body)
        return self.pusher.send(request, timeout, LateAnswerHandler(until, self._reported.put))

    def times_out(self, url: str, timeout: timedelta = TIMEOUT, **options: Any) -> None:
        """Send a request that is not answered in time."""
        assert failure_of(self.send(url, timeout, **options)) is Failure.TIMED_OUT

    def reported(self) -> Answered:
        """Return the next late answer."""
        return self._reported.get(timeout=PATIENCE)

    @property
    def has_reported(self) -> bool:
        return not self._reported.empty()


def open_files() -> int:
    """Return how many descriptors this process has, servers of the test included."""
    return len(list(Path("/proc/self/fd").iterdir()))


def eventually(holds: Callable[[], object]) -> bool:
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
