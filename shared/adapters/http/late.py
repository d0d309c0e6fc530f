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

from shared.adapters.http.answer import Head, HeadReader
from shared.adapters.http.connection import HttpConnection, NoAnswer
from shared.http import Answered, Failure, Late

MAX_WAITING = 64  # connections that wait at a time
_AT_ONCE = 0.001  # seconds for reading what has arrived
_PAUSE = 0.02  # seconds between two looks: a peer that sends single bytes costs next to nothing


class Unanswered(NamedTuple):
    """A request that was sent at *started*, and as much of its answer's head as has come."""

    connection: HttpConnection
    reader: HeadReader
    started: float
    late: Late

    @property
    def until(self) -> float:
        """When nobody wants the answer any more."""
        return self.started + self.late.until.total_seconds()


_Told = tuple[Unanswered, Head, float]


class LateReader:
    """
    Waits for answers on one thread, which is there only while there are any to wait for.

    A connection is the thread's alone from the moment it is handed over, and is closed after its
    answer as after anything else that ends the waiting. Beyond *most* the oldest is given up.
    """

    def __init__(self, most: int = MAX_WAITING) -> None:
        self._most = most
        self._lock = Lock()
        self._arrived: list[Unanswered] = []
        self._thread: Thread | None = None
        self._bell: socket.socket | None = None  # a byte written to it wakes the thread
        self._closed = False

    def wait_for(self, unanswered: Unanswered) -> None:
        """Take over a connection. Raises OSError if there can be no thread or no socket for it."""
        with self._lock:
            if self._closed:
                unanswered.connection.close()
                return
            if self._thread is None:
                self._begin()
            self._arrived.append(unanswered)
            self._ring()

    def close(self) -> None:
        """Give up whatever waits, and take nothing any more."""
        with self._lock:
            self._closed = True
            self._ring()
            thread = self._thread
        if thread:
            thread.join()

    def _begin(self) -> None:
        self._bell, ear = socket.socketpair()
        self._bell.setblocking(False)
        ear.setblocking(False)
        thread = Thread(target=self._run, args=(ear,), name="late-answers", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            ear.close()
            self._bell.close()
            self._bell = None
            raise OSError(str(error)) from error
        self._thread = thread

    def _ring(self) -> None:
        if self._bell:
            with suppress(BlockingIOError):  # It rings already.
                self._bell.send(b"\0")

    def _run(self, ear: socket.socket) -> None:
        waiting: dict[int, Unanswered] = {}  # by file descriptor, the oldest first
        poller = select.poll()
        poller.register(ear.fileno(), select.POLLIN)
        while self._admit(waiting, poller, ear):
            soonest = min((each.until for each in waiting.values()), default=time.monotonic())
            left = max(0.0, soonest - time.monotonic())
            ready = {number for number, _ in poller.poll(math.ceil(left * 1000))}
            with suppress(BlockingIOError):
                while ear.recv(4096):
                    pass
            told: list[_Told] = []
            for number, each in list(waiting.items()):
                if each.until <= time.monotonic() or (number in ready and _is_over(each, told)):
                    poller.unregister(number)
                    del waiting[number]
                    each.connection.close()
            if told:
                with suppress(RuntimeError):  # No more threads: the retry goes its way.
                    Thread(target=_tell, args=(told,), name="late-answer", daemon=True).start()
            time.sleep(_PAUSE)

    def _admit(
        self, waiting: dict[int, Unanswered], poller: select.poll, ear: socket.socket
    ) -> bool:
        """Take in what has arrived; return ``False`` if the thread is not needed any more."""
        with self._lock:
            for each in self._arrived:
                number = each.connection.fileno()
                waiting[number] = each
                poller.register(number, select.POLLIN)
            self._arrived.clear()
            surplus = len(waiting) if self._closed else len(waiting) - self._most
            for number in list(waiting)[: max(0, surplus)]:
                poller.unregister(number)
                waiting.pop(number).connection.close()
            if not waiting and self._bell:
                self._bell.close()
                ear.close()
                self._bell = self._thread = None
            return bool(waiting)


def _is_over(unanswered: Unanswered, told: list[_Told]) -> bool:
    """Read what has arrived; return whether nothing more is to come, and note a complete head."""
    now = time.monotonic()
    try:
        head = unanswered.reader.read(now + _AT_ONCE)
    except NoAnswer as none:
        return none.failure is not Failure.TIMED_OUT
    told.append((unanswered, head, now - unanswered.started))
    return True


def _tell(told: Sequence[_Told]) -> None:
    """Tell what has come, on a thread of its own: who is told may have to wait for storage."""
    for unanswered, head, seconds in told:
        unanswered.late.tell(Answered(head.status, head.headers, b"", seconds))
