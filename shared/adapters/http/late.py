"""Waits for the responses of requests that were not answered in time."""

from __future__ import annotations

import math
import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import NamedTuple

from shared.adapters.awake_clock import awake_seconds
from shared.adapters.http.answer import Answer, await_head
from shared.adapters.http.connection import HttpConnection, NoAnswer
from shared.http import Answered, Failure, LateAnswerHandler

MAX_WAITING = 64  # connections that wait at a time
_READ_SECONDS = 0.001  # for reading what has arrived
_PAUSE_SECONDS = 0.02  # between two polls: a peer that sends single bytes costs next to nothing


class Unanswered(NamedTuple):
    """A request that was sent at *started*, and what has arrived of its answer."""

    connection: HttpConnection
    answer: Answer
    started: float
    late: LateAnswerHandler

    @property
    def until(self) -> float:
        """When the wait ends."""
        return self.started + self.late.within.total_seconds()


_LateAnswer = tuple[Unanswered, float]


class LateReader:
    """
    Waits for responses on one thread, which exists only while there are any to wait for.

    A connection that is passed to it is closed when the wait ends, with or without a response.
    Beyond *most* connections it gives up the oldest.
    """

    def __init__(self, most: int = MAX_WAITING) -> None:
        self._most = most
        self._lock = Lock()
        self._new: list[Unanswered] = []
        self._thread: Thread | None = None
        self._waker: socket.socket | None = None  # a byte written to it wakes the thread
        self._closed = False

    def wait_for(self, unanswered: Unanswered) -> None:
        """Take over a connection. Raises OSError if there can be no thread or no socket for it."""
        with self._lock:
            if self._closed:
                unanswered.connection.close()
                return
            if self._thread is None:
                self._begin()
            self._new.append(unanswered)
            self._wake()

    def close(self) -> None:
        """Close all connections, and any that come later."""
        with self._lock:
            self._closed = True
            self._wake()
            thread = self._thread
        if thread:
            thread.join()

    def _begin(self) -> None:
        self._waker, wakeups = socket.socketpair()
        self._waker.setblocking(False)
        wakeups.setblocking(False)
        thread = Thread(target=self._run, args=(wakeups,), name="late-answers", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            wakeups.close()
            self._waker.close()
            self._waker = None
            raise OSError(str(error)) from error
        self._thread = thread

    def _wake(self) -> None:
        if self._waker:
            with suppress(BlockingIOError):  # it wakes up already
                self._waker.send(b"\0")

    def _run(self, wakeups: socket.socket) -> None:
        waiting: dict[int, Unanswered] = {}  # by file descriptor, the oldest first
        poller = select.poll()
        poller.register(wakeups.fileno(), select.POLLIN)
        while self._admit(waiting, poller, wakeups):
            soonest = min((each.until for each in waiting.values()), default=awake_seconds())
            left = max(0.0, soonest - awake_seconds())
            ready = {number for number, _ in poller.poll(math.ceil(left * 1000))}
            with suppress(BlockingIOError):
                while wakeups.recv(4096):
                    pass
            arrived: list[_LateAnswer] = []
            for number, each in list(waiting.items()):
                if each.until <= awake_seconds() or (number in ready and _is_over(each, arrived)):
                    poller.unregister(number)
                    del waiting[number]
                    each.connection.close()
            if arrived:
                with suppress(RuntimeError):  # No more threads: the retry goes its way.
                    Thread(target=_report, args=(arrived,), name="late-answer", daemon=True).start()
            time.sleep(_PAUSE_SECONDS)

    def _admit(
        self, waiting: dict[int, Unanswered], poller: select.poll, wakeups: socket.socket
    ) -> bool:
        """Add new connections; return ``False`` if there is none left to wait for."""
        with self._lock:
            for each in self._new:
                number = each.connection.fileno()
                waiting[number] = each
                poller.register(number, select.POLLIN)
            self._new.clear()
            surplus = len(waiting) if self._closed else len(waiting) - self._most
            for number in list(waiting)[: max(0, surplus)]:
                poller.unregister(number)
                waiting.pop(number).connection.close()
            if not waiting and self._waker:
                self._waker.close()
                wakeups.close()
                self._waker = self._thread = None
            return bool(waiting)


def _is_over(unanswered: Unanswered, arrived: list[_LateAnswer]) -> bool:
    """Read what has arrived, add a complete head to *arrived*; return whether the wait is over."""
    now = awake_seconds()
    try:
        await_head(unanswered.connection, unanswered.answer, now + _READ_SECONDS)
    except NoAnswer as failed:
        return failed.failure is not Failure.TIMED_OUT
    arrived.append((unanswered, now - unanswered.started))
    return True


def _report(arrived: Sequence[_LateAnswer]) -> None:
    """Report responses, on a thread of their own: the callbacks may wait for storage."""
    for (_, answer, _, late), seconds in arrived:
        late.report(Answered(answer.status, answer.headers, b"", seconds))
