"""Requests that nobody waits for an answer to."""

from __future__ import annotations

import threading
from datetime import timedelta

from pushgrid.testing.memory import answered
from shared.adapters.http.notifier import THREADS, ParallelNotifier
from shared.http import Exchange, LateAnswerHandler, OutboundRequest


class Hanging:
    """A pusher whose requests hang until they are released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.begun: list[str] = []
        self.done: list[str] = []

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        assert timeout == timedelta(seconds=5)
        assert late is None
        self.begun.append(request.url)
        self.released.wait(30)
        self.done.append(request.url)
        return answered(200)


def request(number: int) -> OutboundRequest:
    return OutboundRequest("POST", f"https://crm.example/{number}", {}, b"")


def test_endpoints_that_hang_hold_nobody_up_and_what_was_not_begun_is_never_sent():
    pusher = Hanging()
    notifier = ParallelNotifier(pusher, patience=timedelta(milliseconds=100))

    notifier.notify([request(number) for number in range(THREADS + 5)])

    assert pusher.done == []  # it returned although no request had ended
    pusher.released.set()
    notifier.notify([])
    assert len(pusher.begun) == THREADS


def test_all_are_notified_where_all_answer():
    pusher = Hanging()
    pusher.released.set()

    ParallelNotifier(pusher).notify([request(number) for number in range(100)])

    assert sorted(pusher.begun) == sorted(request(number).url for number in range(100))
