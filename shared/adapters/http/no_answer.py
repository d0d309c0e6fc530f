"""Defines why an exchange has failed, and waits until deadlines."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine
from typing import Any, TypeVar

from shared.clock import Deadline
from shared.errors import is_shortage
from shared.http import Failure

T = TypeVar("T")

_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError)


class NoAnswer(Exception):
    """An exchange has failed; the sender returns it as a value."""

    def __init__(self, failure: Failure, detail: str, status: int = 0) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.status = status


def failed(error: OSError | MemoryError) -> NoAnswer:
    """Return what to raise for an error of a socket, or for want of memory."""
    if isinstance(error, ssl.SSLError) and not isinstance(error, _CLOSED):
        return NoAnswer(Failure.TLS, str(error))
    failure = Failure.SHORTAGE if is_shortage(error) else Failure.SOCKET
    return NoAnswer(failure, str(error) or repr(error))


async def is_done(future: asyncio.Future[Any], deadline: Deadline) -> bool:
    """Wait for *future*; return ``False`` if it is not done at *deadline*. It goes on then."""
    while not future.done():
        # Timers of the loop count the time in which the process was stopped, deadlines do not.
        if (left := deadline.time_left.total_seconds()) <= 0:
            return False
        await asyncio.wait([future], timeout=left)
    return True


async def before(deadline: Deadline, work: Coroutine[Any, Any, T], detail: str) -> T:
    """
    Return the result of *work*, which is cancelled at *deadline*.

    Raises:
        NoAnswer: it was not done in time, as *detail* says.
    """
    task = asyncio.ensure_future(work)
    try:
        if await is_done(task, deadline):
            return task.result()
    finally:
        task.cancel()
    raise NoAnswer(Failure.TIMED_OUT, detail)
