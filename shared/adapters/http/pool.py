"""Keeps idle connections for the next request to the same server, and promises them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from shared.adapters.http.connection import HttpConnection
from shared.adapters.http.openings import Again, Openings
from shared.adapters.http.request_writer import Server

_IDLE_SECONDS = 60.0
_MAX_SECONDS = 600.0  # then a new one, so that a moved name is noticed
_SWEEP_SECONDS = 5.0
MAX_IDLE = 4096  # as many as pushes are under way: one server may be that of many endpoints


class Pool:
    """
    Returns the connection used last first, so that surplus connections expire.

    There is no timer that closes those: `keep` sweeps now and then. A connection belongs to either
    the pool or one request. All times go by *clock*, in seconds.
    """

    def __init__(
        self,
        most: int = MAX_IDLE,
        openings: Openings | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        # The endpoint used last comes last.
        self._idle: dict[Server, list[HttpConnection]] = {}
        self._count = 0
        self._most = most
        self._next_sweep = 0.0
        self.openings = openings or Openings(clock)
        self.clock = clock

    def promise(self, server: Server, again: Again) -> bool:
        """Promise an idle connection, or a new one, as `Openings.promise` does."""
        now = self.clock()
        while stack := self._idle.get(server):
            if stack[0].expires > now and not stack[0].is_closed:
                break
            self._drop(stack[0])
        return self.openings.promise(server, len(stack or ()), again)

    def take(self, server: Server) -> HttpConnection | None:
        while True:
            stack = self._idle.get(server)
            if not stack:
                return None
            connection = stack.pop()
            self._count -= 1
            if connection.expires > self.clock() and connection.is_quiet:
                return connection
            connection.close()

    def keep(self, connection: HttpConnection, keep_for: float | None) -> None:
        """Keep *connection*, for less than *keep_for* seconds if the peer has set such a limit."""
        now = self.clock()
        seconds = _IDLE_SECONDS if keep_for is None else min(_IDLE_SECONDS, keep_for - 1)
        connection.expires = min(now + seconds, connection.born + _MAX_SECONDS)
        stack = self._idle.pop(connection.server, None) or []
        self._idle[connection.server] = stack
        stack.append(connection)
        self._count += 1
        if self._count > self._most:
            self._drop(next(iter(self._idle.values()))[0])
        if now >= self._next_sweep:
            self._next_sweep = now + _SWEEP_SECONDS
            idle = [each for stack in self._idle.values() for each in stack]
            for each in idle:
                if each.expires <= now:
                    self._drop(each)

    def close(self) -> bool:
        """Close all idle connections; return whether there were any."""
        idle = [connection for stack in self._idle.values() for connection in stack]
        self._idle.clear()
        self._count = 0
        for connection in idle:
            connection.close()
        return bool(idle)

    def _drop(self, connection: HttpConnection) -> None:
        stack = self._idle[connection.server]
        stack.remove(connection)
        if not stack:
            del self._idle[connection.server]
        self._count -= 1
        connection.close()
