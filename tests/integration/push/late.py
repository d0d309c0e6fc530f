"""Who waits for late answers, and endpoints that give them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Event

from shared.http import Answered, Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest
from tests.integration.push.on_loop import HttpPusher
from tests.integration.push.scripted import OK, PATIENCE, Peer, Script

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

    def reported(self, within: float = PATIENCE) -> Answered | None:
        """Return the next late answer, if there is one in so many seconds."""
        try:
            return self._reported.get(timeout=within)
        except Empty:
            return None


def waits(pusher: HttpPusher) -> int:
    """Return how many connections wait for a late answer."""
    return len(pusher.real._late)


def eventually(holds: Callable[[], object]) -> bool:
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def is_timeout(exchange: Exchange) -> bool:
    return isinstance(exchange, NotAnswered) and exchange.failure is Failure.TIMED_OUT


def answering_when(timed_out: Event, answer: bytes = OK) -> Script:
    """Answer once *timed_out* is set."""

    def script(peer: Peer) -> None:
        peer.read()
        timed_out.wait(PATIENCE)
        peer.send(answer)
        peer.receive()  # until the client closes

    return script


def until_the_end(ended: Event) -> Script:
    """Stay silent, and say when the client has gone."""

    def script(peer: Peer) -> None:
        peer.read()
        if not peer.receive() and not peer.stopped.is_set():
            ended.set()

    return script
