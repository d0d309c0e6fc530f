"""
Pushes requests to endpoints over HTTP/1.1, on sockets of its own.

The library requests has no total deadline (a server that sends a byte now and then holds a request
for ever), follows proxies of the environment and redirects, inflates bodies, adds headers, resolves
a name again after the guard has judged it, and costs several times the processor time.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from shared.adapters.awake_clock import awake_seconds
from shared.adapters.http.answer import HeadReader
from shared.adapters.http.body import read_body
from shared.adapters.http.connect import connect, new_socket
from shared.adapters.http.connection import Endpoint, HttpConnection, NoAnswer, failed
from shared.adapters.http.late import LateReader, Unanswered
from shared.adapters.http.outbound_guard import Address, OutboundGuard
from shared.adapters.http.pool import Pool
from shared.adapters.http.request import Target, parse_url, write_request
from shared.adapters.http.resolver import Lookup, NameServers, Resolver, as_literal
from shared.http import Answered, Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest

_CONNECT_SECONDS = 10.0
_BODY_SECONDS = 2.0


class _Call(NamedTuple):
    """
    A request as bytes, the time it may take once it is on its way, and who waits beyond it.

    *wants_body*: that time is for the body, too.
    """

    target: Target
    data: bytes
    timeout: float
    late: LateAnswerHandler | None
    wants_body: bool


class HttpPusher:
    """
    Sends requests through the outbound guard, from any number of threads.

    The timeout runs from the start of the send to the end of the response headers. Before it,
    connecting has a limit of its own: the same, but at most ten seconds. After it, the body gets at
    most two seconds more, or what is left of the timeout where it is wanted, and never changes the
    outcome.

    A connection used before may have been closed by the peer just when we send. If it ends before
    a byte of an answer, the request is sent once more on a new connection, within the same
    timeout. The peer may have handled the first one: delivery is at least once, and a duplicate is
    better than a failure that the endpoint has not caused.

    With *late* a request that was sent whole, and not answered in time, leaves its connection to
    ``LateReader``.
    """

    def __init__(
        self,
        guard: OutboundGuard,
        *,
        tls: ssl.SSLContext | None = None,
        lookup: Lookup | None = None,
    ) -> None:
        self._guard = guard
        self._tls = tls or default_tls()
        self._name_servers = NameServers()
        self._resolver = Resolver(lookup or self._name_servers)
        self._pool = Pool()
        self._late_reader = LateReader()

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        """Send and wait for the response headers for at most *timeout*. Never raises."""
        begun = awake_seconds()
        try:
            target = parse_url(request.url)
            data = write_request(request, target)
            self._refuse(target)
            return self._exchange(
                _Call(target, data, timeout.total_seconds(), late, request.wants_body)
            )
        except NoAnswer as none:
            return NotAnswered(none.failure, none.detail, awake_seconds() - begun)
        except OSError as error:
            return NotAnswered(failed(error).failure, str(error), awake_seconds() - begun)
        except MemoryError as error:
            return NotAnswered(Failure.SHORTAGE, repr(error), awake_seconds() - begun)

    def close(self) -> None:
        """Close the connections that are idle or wait for a late answer, and end lookups."""
        self._pool.close()
        self._name_servers.close()
        self._late_reader.close()

    def _refuse(self, target: Target) -> None:
        refused = self._guard.refuse_scheme(target.scheme) or self._guard.refuse_host(
            target.host, target.port
        )
        if refused:
            raise NoAnswer(Failure.NOT_ALLOWED, refused)

    def _exchange(self, call: _Call) -> Answered:
        target = call.target
        endpoint: Endpoint = (target.scheme, target.host, target.port)
        connection = self._pool.take(endpoint)
        started = awake_seconds()
        if connection is not None:
            try:
                return self._converse(connection, call, started)
            except NoAnswer as stale:
                if stale.failure is not Failure.SOCKET or connection.received:
                    raise
            limit = min(_CONNECT_SECONDS, started + call.timeout - awake_seconds())
            return self._converse(self._connect(endpoint, limit), call, started)
        connection = self._connect(endpoint, min(_CONNECT_SECONDS, call.timeout))
        return self._converse(connection, call, awake_seconds())

    def _connect(self, endpoint: Endpoint, seconds: float) -> HttpConnection:
        scheme, host, port = endpoint
        deadline = awake_seconds() + seconds
        allowed = self._allowed(self._addresses(host, deadline), port)
        connection = connect(allowed, endpoint, deadline, self._pool.close)
        if scheme == "https":
            try:
                # A certificate names an address in its usual form, and a name without the dot.
                name = str(as_literal(host) or host.removesuffix("."))
                connection.start_tls(self._tls, name, deadline)
            except BaseException:
                connection.close()
                raise
        return connection

    def _addresses(self, host: str, deadline: float) -> Sequence[Address]:
        """Resolve a name; that it is unknown is believed only if a socket can be had to ask."""
        self._need_socket()
        try:
            return self._resolver.addresses(host, deadline)
        except NoAnswer as error:
            if error.failure is Failure.RESOLUTION:
                self._need_socket()
            raise

    def _need_socket(self) -> None:
        new_socket(socket.AF_INET, self._pool.close).close()

    def _allowed(self, candidates: Sequence[Address], port: int) -> list[Address]:
        verdicts = [(address, self._guard.refusal(address, port)) for address in candidates]
        allowed = [address for address, refused in verdicts if refused is None]
        if not allowed:
            raise NoAnswer(Failure.NOT_ALLOWED, "; ".join(str(why) for _, why in verdicts))
        return allowed

    def _converse(self, connection: HttpConnection, call: _Call, started: float) -> Answered:
        kept = False
        reader = HeadReader(connection)
        try:
            all_sent = connection.send(call.data, started + call.timeout)
            try:
                head = reader.read(started + call.timeout)
            except NoAnswer as none:
                if none.failure is Failure.TIMED_OUT and all_sent and call.late:
                    with suppress(OSError):  # No room to wait: the timeout is what counts.
                        late = Unanswered(connection, reader, started, call.late)
                        self._late_reader.wait_for(late)
                        kept = True
                raise
            seconds = awake_seconds() - started
            body_until = awake_seconds() + _BODY_SECONDS
            if call.wants_body:
                body_until = max(body_until, started + call.timeout)
            body, complete = read_body(connection, head, body_until)
            if all_sent and complete and head.stays_open and not connection.buffer:
                self._pool.keep(connection, head.keep_for)
                kept = True
        finally:
            if not kept:
                connection.close()
        return Answered(head.status, head.headers, body, seconds)


def default_tls() -> ssl.SSLContext:
    """Return a context that trusts what the system trusts; ``SSL_CERT_FILE`` changes that."""
    context = ssl.create_default_context()
    # Python 3.13 and newer would refuse what many private authorities issue and older ones accept.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
