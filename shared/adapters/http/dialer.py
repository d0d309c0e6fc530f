"""Opens connections to endpoints: resolves, judges, connects, through a proxy if there is one."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from asyncio import to_thread
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from errno import EADDRNOTAVAIL, ETIMEDOUT
from ipaddress import IPv6Address
from typing import Any, NamedTuple, cast

from aiohappyeyeballs import start_connection
from aiohappyeyeballs.types import AddrInfoType

from shared.adapters.http.connection import HttpConnection
from shared.adapters.http.no_answer import NoAnswer, before, failed
from shared.adapters.http.openings import Opening
from shared.adapters.http.outbound_guard import Address, OutboundGuard
from shared.adapters.http.pool import Pool
from shared.adapters.http.request_writer import Server
from shared.adapters.http.resolver import Lookup, NameServers, Resolver
from shared.adapters.http.tls import Tls, parse_certificate
from shared.clock import Deadline
from shared.errors import is_shortage
from shared.http import Failure, Peer
from shared.settings.network_settings import EgressProxy

_ATTEMPT_SECONDS = 0.25  # until the next address is tried as well (section 5)

MakeRoom = Callable[[], bool]

_SUCCESSFUL = range(200, 300)
_AUTHENTICATION_REQUIRED = 407


async def connect(
    addresses: Sequence[Address], port: int, deadline: Deadline, make_room: MakeRoom
) -> socket.socket:
    """
    Connect to one of *addresses*, at least one and in this order; return a non-blocking socket.

    The next address is tried as soon as one has failed, or beside those that have not answered for
    a quarter of a second. The first that accepts is taken, and the others are closed. *make_room*
    is as for `new_socket`. Source: Happy Eyeballs (RFC 8305).

    Raises:
        NoAnswer: none accepted until the deadline; the failure is that of the last one, or a
            shortage if any met one.
    """
    attempts = _Attempts(make_room)
    race = start_connection(
        [_info(address, port) for address in addresses],
        happy_eyeballs_delay=_ATTEMPT_SECONDS,
        loop=cast("asyncio.AbstractEventLoop", attempts),
        socket_factory=attempts.new_socket,
    )
    try:
        return await before(deadline, race, "no connection in time")
    except NoAnswer as late:
        attempts.note(late)
    except (OSError, RuntimeError):
        pass  # It has been noted.
    raise attempts.failure


def new_socket(family: int, make_room: MakeRoom) -> socket.socket:
    """
    Open a TCP socket; *make_room* closes others if there is no room, and tells whether it did.

    Raises:
        OSError: a shortage: the process may have no more.
    """
    while True:
        try:
            return socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            if not (is_shortage(error) and make_room()):
                raise


class _Attempts:
    """
    Opens and connects the sockets of a race, and notes why attempts failed.

    The library keeps no errors apart: where several differ, it drops their codes.
    """

    def __init__(self, make_room: MakeRoom) -> None:
        self._make_room = make_room
        self._loop = asyncio.get_running_loop()
        self.failure = NoAnswer(Failure.SOCKET, "no address")

    def note(self, failure: NoAnswer) -> None:
        if self.failure.failure is not Failure.SHORTAGE:
            self.failure = failure

    def new_socket(self, info: AddrInfoType) -> socket.socket:
        try:
            raw = new_socket(info[0], self._make_room)
        except OSError as error:
            self.note(failed(error))
            raise
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return raw

    async def sock_connect(self, raw: socket.socket, address: Any) -> None:
        try:
            await self._loop.sock_connect(raw, address)
        except OSError as error:
            failure = failed(error).failure
            if error.errno == ETIMEDOUT:
                failure = Failure.TIMED_OUT
            # All local ports are in use; of IPv6, that this host has no address.
            if error.errno == EADDRNOTAVAIL and raw.family is socket.AF_INET:
                failure = Failure.SHORTAGE
            reason = os.strerror(error.errno or 0)
            self.note(NoAnswer(failure, f"connecting to {address[0]}: {reason}"))
            raise


def _info(address: Address, port: int) -> AddrInfoType:
    # The text of a parsed address never goes through a resolver.
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (str(address), port)


class Proxy(NamedTuple):
    """A proxy that the operator has set."""

    setting: EgressProxy
    addresses: Sequence[Address]
    make_room: MakeRoom  # as for `new_socket`

    async def connect(
        self, targets: Sequence[Address], server: Server, deadline: Deadline
    ) -> HttpConnection:
        """
        Open a tunnel to the first of *targets* that the proxy reaches; each gets its share of time.

        The proxy gets an address and not the name, so that it reaches what the guard has judged.
        Source: CONNECT (RFC 9110, 9.3.6).

        Raises:
            NoAnswer: it reached none; the failure is that of the last one, or a local shortage
                if the proxy can't be used.
        """
        for left in range(len(targets), 1, -1):
            until = deadline.within(deadline.time_left / left)
            try:
                return await self._open(targets[-left], server, until)
            except NoAnswer as none:
                if none.failure is Failure.SHORTAGE:
                    raise
                # The next address may do better.
        return await self._open(targets[-1], server, deadline)

    async def _open(self, address: Address, server: Server, deadline: Deadline) -> HttpConnection:
        host = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
        target = f"{host}:{server.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.setting.authorization:
            lines.append(f"Proxy-Authorization: {self.setting.authorization}")
        data = "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")
        try:
            connected = await connect(self.addresses, self.setting.port, deadline, self.make_room)
        except NoAnswer as none:
            raise no_proxy(none) from none
        connection = HttpConnection(connected, server)
        try:
            connection.send(data)
            await connection.await_head(deadline)
            answer = connection.answer
            if answer.status not in _SUCCESSFUL or answer.body:
                more = " with more than a head" if answer.body else ""
                detail = f"the proxy answered {answer.status}{more} for {target}"
                is_ours = answer.status == _AUTHENTICATION_REQUIRED
                failure = Failure.SHORTAGE if is_ours else Failure.SOCKET
                raise NoAnswer(failure, detail)  # noqa: TRY301 - closed below
        except BaseException:
            connection.close()
            raise
        return connection


def no_proxy(none: NoAnswer) -> NoAnswer:
    """Return what to raise if the proxy itself can't be reached: no endpoint is to blame."""
    return NoAnswer(Failure.SHORTAGE, f"the proxy: {none.detail}")


class Dialer:
    """
    Connects to addresses that *guard* allows, and to no others, through *proxy* if there is one.

    The guard does not judge the proxy's own address, which the operator has set. If there is
    no descriptor, *pool* makes room.
    """

    def __init__(
        self,
        guard: OutboundGuard,
        tls: ssl.SSLContext,
        proxy: EgressProxy | None,
        lookup: Lookup | None,
        pool: Pool,
    ) -> None:
        self._guard = guard
        self._tls = Tls(tls, pool.clock)
        self._clock = pool.clock
        self._proxy = proxy
        self._name_servers = NameServers()
        self._resolver = Resolver(lookup or self._name_servers)
        self._make_room = pool.close

    async def dial(
        self,
        server: Server,
        seconds: float,
        opening: Opening,
        *,
        resumes: bool = True,
        verifies: bool = True,
    ) -> HttpConnection:
        """
        Open a connection within *seconds*, by the latest TLS session if it *resumes* one.

        *opening*, its permission, ends if that fails.

        If it does not verify the certificate (*verifies*), nothing may be sent on it.

        Raises:
            NoAnswer: there is none.
        """
        deadline = Deadline(timedelta(seconds=seconds), self._clock)
        try:
            connection = await self._connect(server, deadline, opening)
        except BaseException:
            opening.end()
            raise
        if server.scheme == "https":
            try:
                await self._tls.start(connection, deadline, resumes=resumes, verifies=verifies)
            except BaseException:
                connection.close()
                raise
        return connection

    async def peer(self, connection: HttpConnection) -> Peer:
        der, found = connection.tls and connection.tls.getpeercert(binary_form=True), None
        if der:
            with suppress(RuntimeError):  # There is no thread for it, which imports cryptography.
                found = await to_thread(parse_certificate, der, connection.server.host)
        return Peer(None if self._proxy else connection.address, found)

    def remember(self, connection: HttpConnection) -> None:
        """Remember how *connection*, which has got an answer, can be opened again for less."""
        self._tls.remember(connection)

    async def close(self) -> None:
        await self._name_servers.close()

    async def _connect(
        self, server: Server, deadline: Deadline, opening: Opening
    ) -> HttpConnection:
        if refused := self._guard.refuse_server(*server):
            raise NoAnswer(Failure.NOT_ALLOWED, refused)
        allowed = self._allowed(await self._addresses(server.host, deadline), server.port)
        if self._proxy:
            proxy = await self._through(self._proxy, deadline)
            opening.connecting()
            connection = await proxy.connect(allowed, server, deadline)
        else:
            opening.connecting()
            connected = await connect(allowed, server.port, deadline, self._make_room)
            connection = HttpConnection(connected, server)
        connection.born = self._clock()
        opening.connected()
        connection.opening = opening
        return connection

    async def _through(self, proxy: EgressProxy, deadline: Deadline) -> Proxy:
        try:
            return Proxy(proxy, await self._addresses(proxy.host, deadline), self._make_room)
        except NoAnswer as none:
            raise no_proxy(none) from none

    async def _addresses(self, host: str, deadline: Deadline) -> Sequence[Address]:
        """Resolve a name; that it is unknown is believed only if a socket can be had to ask."""
        self._need_socket()
        try:
            return await self._resolver.addresses(host, deadline)
        except NoAnswer as error:
            if error.failure is Failure.RESOLUTION:
                self._need_socket()
            raise

    def _need_socket(self) -> None:
        new_socket(socket.AF_INET, self._make_room).close()

    def _allowed(self, candidates: Sequence[Address], port: int) -> list[Address]:
        verdicts = [(address, self._guard.refusal(address, port)) for address in candidates]
        allowed = [address for address, refused in verdicts if refused is None]
        if not allowed:
            raise NoAnswer(Failure.NOT_ALLOWED, "; ".join(str(why) for _, why in verdicts))
        return allowed
