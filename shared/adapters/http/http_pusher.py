"""
Pushes requests to endpoints over HTTP/1.1, on sockets of its own.

The library requests has no total deadline (a server that sends a byte now and then holds a request
for ever), follows proxies of the environment and redirects, inflates bodies, adds headers, resolves
a name again after the guard has judged it, and costs several times the processor time.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from shared import telemetry
from shared.adapters.http.connection import HttpConnection
from shared.adapters.http.dialer import Dialer
from shared.adapters.http.no_answer import NoAnswer, failed
from shared.adapters.http.openings import Again, Opening
from shared.adapters.http.outbound_guard import OutboundGuard
from shared.adapters.http.pool import Pool
from shared.adapters.http.request_writer import Server, parse_url, write_request
from shared.adapters.http.resolver import Lookup
from shared.adapters.http.tls import client_tls
from shared.clock import Deadline
from shared.http import Answered, Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest
from shared.settings.network_settings import EgressProxy

MOST_LATE = 256  # connections that wait for a late answer; then the oldest gives way
_CONNECT_SECONDS = 10.0
_BODY_SECONDS = 2.0
_STALE = (Failure.SOCKET, Failure.TLS)  # the ends of a connection that the peer gave up


class _WrittenRequest(NamedTuple):
    """A request as bytes, the time it may take once it is on its way, and who waits beyond it."""

    server: Server
    data: bytes
    timeout: float
    late: LateAnswerHandler | None
    wants_body: bool  # the time is for the body, too

    @property
    def connect_seconds(self) -> float:
        return min(_CONNECT_SECONDS, self.timeout)


class HttpPusher:
    """
    Sends requests through the outbound guard, all on one event loop.

    The timeout runs from the start of the send to the end of the response headers. Before it,
    connecting has a limit of its own: the same, but at most ten seconds. After it, the body gets at
    most two seconds more, or what is left of the timeout where it is wanted, and never changes the
    outcome.

    A connection used before may have been closed by the peer just when we send. If it ends before
    a byte of an answer, the request is sent once more on a new connection, within the same
    timeout. The peer may have handled the first one: delivery is at least once, and a duplicate is
    better than a failure that the endpoint has not caused.

    With *late* the connection of a request that was sent whole, and not answered in time, waits on.

    A request that needs a new connection first waits until it may be opened; no timeout runs
    meanwhile. ``reserve_connection`` promises it one before it is sent. All times go by
    the clock of *pool*.
    """

    def __init__(
        self,
        guard: OutboundGuard,
        *,
        tls: ssl.SSLContext | None = None,
        lookup: Lookup | None = None,
        proxy: EgressProxy | None = None,
        pool: Pool | None = None,
    ) -> None:
        self._pool = pool or Pool()
        self._clock = self._pool.clock
        self._openings = self._pool.openings
        self._dialer = Dialer(guard, tls or client_tls(), proxy, lookup, self._pool)
        self._late: dict[HttpConnection, asyncio.Task[None]] = {}  # the oldest first

    async def send(
        self,
        request: OutboundRequest,
        timeout: timedelta,
        late: LateAnswerHandler | None = None,
    ) -> Exchange:
        """Send and wait for the response headers for at most *timeout*. Never raises."""
        begun = self._clock()
        try:
            target = parse_url(request.url)
            data = write_request(request, target)
            server = target.server
            call = _WrittenRequest(server, data, timeout.total_seconds(), late, request.wants_body)
            connection = None if request.examines_peer else self._pool.take(server)
            opening = self._openings.claim(server, reuses=connection is not None)
            if connection is not None:
                return await self._reuse(connection, call)
            if opening is None:
                opening = await self._openings.turn(server)
                begun = self._clock()
            if request.examines_peer:
                return await self._examine(call, opening)
            connection = await self._dialer.dial(server, call.connect_seconds, opening)
            return await self._converse(connection, call, self._clock())
        except (NoAnswer, OSError, MemoryError) as error:
            none = error if isinstance(error, NoAnswer) else failed(error)
            seconds = self._clock() - begun
            return NotAnswered(none.failure, none.detail, seconds, status=none.status)

    def reserve_connection(self, url: str, again: Again) -> bool:
        """Implement the port ``ReserveConnection``."""
        try:
            target = parse_url(url)
        except NoAnswer:
            return True  # It needs no connection: `send` tells why, or it is for a queue.
        return self._pool.promise(target.server, again)

    def stop(self) -> None:
        """Let no request wait for a connection any more: the app stops."""
        self._openings.stop()

    async def close(self) -> None:
        """Close the connections that are idle or wait for a late answer, and end lookups."""
        self._pool.close()
        for connection in list(self._late):
            self._give_up(connection)
        await self._dialer.close()

    async def _reuse(self, connection: HttpConnection, call: _WrittenRequest) -> Answered:
        """Send over a used connection or, if the peer has given it up, over a new one."""
        started = self._clock()
        try:
            return await self._converse(connection, call, started)
        except NoAnswer as stale:
            if stale.failure not in _STALE or connection.received:
                raise
        left = started + call.timeout - self._clock()
        opening = await self._openings.turn(call.server)
        started = self._clock() + left - call.timeout
        connection = await self._dialer.dial(call.server, min(_CONNECT_SECONDS, left), opening)
        return await self._converse(connection, call, started)

    async def _examine(self, call: _WrittenRequest, opening: Opening) -> Exchange:
        """Send over a new connection, and tell who is at its other end."""
        begun, limit, peer = self._clock(), call.connect_seconds, None
        try:
            connection = await self._dialer.dial(call.server, limit, opening, resumes=False)
            peer = await self._dialer.peer(connection)
            answered = await self._converse(connection, call, self._clock())
            return answered._replace(peer=peer)
        except NoAnswer as none:
            seconds = self._clock() - begun
            if none.failure is Failure.TLS and peer is None:
                with suppress(NoAnswer):  # What it presents explains why it was refused.
                    opening = await self._openings.turn(call.server)
                    connection = await self._dialer.dial(
                        call.server, limit, opening, verifies=False
                    )
                    peer = await self._dialer.peer(connection)
                    connection.close()
            return NotAnswered(none.failure, none.detail, seconds, peer)

    async def _converse(
        self, connection: HttpConnection, call: _WrittenRequest, started: float
    ) -> Answered:
        kept = False
        try:
            connection.send(call.data)
            try:
                await connection.await_head(self._until(started + call.timeout))
            except NoAnswer as none:
                if none.failure is Failure.TIMED_OUT and connection.is_all_sent and call.late:
                    self._wait_on(connection, started, call.late)
                    kept = True
                raise
            answer = connection.answer
            seconds = self._clock() - started
            connection.end_opening()
            if not answer.is_over:
                body_until = self._clock() + _BODY_SECONDS
                if call.wants_body:
                    body_until = max(body_until, started + call.timeout)
                await connection.await_body(self._until(body_until))
            if connection.is_new:
                self._dialer.remember(connection)
            if connection.is_all_sent and answer.is_reusable:
                self._pool.keep(connection, answer.keep_for)
                kept = True
        finally:
            if not kept:
                connection.close()
        return Answered(answer.status, answer.headers, bytes(answer.body), seconds)

    def _wait_on(self, connection: HttpConnection, started: float, late: LateAnswerHandler) -> None:
        if len(self._late) >= MOST_LATE:
            self._give_up(next(iter(self._late)))
        # In a context of its own: the invocation that began it may be over when its answer comes.
        self._late[connection] = asyncio.get_running_loop().create_task(
            self._report(connection, started, late), context=telemetry.own_context()
        )

    async def _report(
        self, connection: HttpConnection, started: float, late: LateAnswerHandler
    ) -> None:
        try:
            await connection.await_head(self._until(started + late.within.total_seconds()))
            answer, seconds = connection.answer, self._clock() - started
            late.report(Answered(answer.status, answer.headers, b"", seconds))
        except NoAnswer:
            pass
        finally:
            self._late.pop(connection, None)
            connection.close()

    def _until(self, at: float) -> Deadline:
        return Deadline.at(at, self._clock)

    def _give_up(self, connection: HttpConnection) -> None:
        self._late.pop(connection).cancel()
        connection.close()
