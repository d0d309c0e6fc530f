"""Waits for the responses of requests that were not answered in time."""

from __future__ import annotations

import asyncio
from contextvars import Context

from shared.adapters.awake_clock import awake_seconds
from shared.adapters.http.connection import HttpConnection
from shared.adapters.http.no_answer import NoAnswer
from shared.http import Answered, LateAnswerHandler

MAX_WAITING = 256  # connections that wait at a time


class LateAnswers:
    """
    Waits for responses on connections, at most *most* at a time: then the oldest gives way.

    A connection is closed when its wait ends, with or without a response.
    """

    def __init__(self, most: int = MAX_WAITING) -> None:
        self._most = most
        self._waits: dict[HttpConnection, asyncio.Task[None]] = {}  # the oldest first

    def wait_for(
        self, connection: HttpConnection, started: float, handler: LateAnswerHandler
    ) -> None:
        """Take over a connection, whose request was sent at *started*."""
        if len(self._waits) >= self._most:
            self._end(next(iter(self._waits)))
        # In a context of its own: the invocation that began it may be over when its answer comes.
        self._waits[connection] = asyncio.get_running_loop().create_task(
            self._wait(connection, started, handler), context=Context()
        )

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._waits):
            self._end(connection)

    async def _wait(
        self, connection: HttpConnection, started: float, handler: LateAnswerHandler
    ) -> None:
        try:
            await connection.await_head(started + handler.within.total_seconds())
            answer, seconds = connection.answer, awake_seconds() - started
            handler.report(Answered(answer.status, answer.headers, b"", seconds))
        except NoAnswer:
            pass
        finally:
            self._waits.pop(connection, None)
            connection.close()

    def _end(self, connection: HttpConnection) -> None:
        self._waits.pop(connection).cancel()
        connection.close()
