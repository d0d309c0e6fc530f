"""Opens connections to endpoints: resolves, judges, connects and starts TLS."""

from __future__ import annotations

import socket
import ssl
from asyncio import to_thread
from collections.abc import Sequence
from contextlib import suppress

from shared.adapters.awake_clock import awake_seconds
from shared.adapters.http.certificate import parse_certificate
from shared.adapters.http.connect import MakeRoom, connect, new_socket
from shared.adapters.http.connection import HttpConnection, Server
from shared.adapters.http.egress_tunnel import Proxy, no_proxy
from shared.adapters.http.no_answer import NoAnswer
from shared.adapters.http.outbound_guard import Address, OutboundGuard
from shared.adapters.http.resolver import Lookup, NameServers, Resolver
from shared.adapters.http.tls import Tls
from shared.http import Failure, Peer
from shared.network_settings import EgressProxy


class Dialer:
    """
    Connects to addresses that *guard* allows, and to no others, through *proxy* if there is one.

    The guard does not judge the proxy's own address, which the operator has set. *make_room* is as
    for `new_socket`.
    """

    def __init__(
        self,
        guard: OutboundGuard,
        tls: ssl.SSLContext,
        proxy: EgressProxy | None,
        lookup: Lookup | None,
        make_room: MakeRoom,
    ) -> None:
        self._guard = guard
        self._tls = Tls(tls)
        self._proxy = proxy
        self._name_servers = NameServers()
        self._resolver = Resolver(lookup or self._name_servers)
        self._make_room = make_room

    async def dial(
        self, server: Server, seconds: float, *, resumes: bool = True, verifies: bool = True
    ) -> HttpConnection:
        """
        Open a connection within so many seconds; unless it *resumes*, with a new TLS session.

        Unless it *verifies* the certificate, nothing may be sent on it.

        Raises:
            NoAnswer: there is none.
        """
        scheme, host, port = server
        deadline = awake_seconds() + seconds
        allowed = self._allowed(await self._addresses(host, deadline), port)
        if self._proxy:
            proxy = await self._through(self._proxy, deadline)
            connection = await proxy.connect(allowed, server, deadline)
        else:
            connected = await connect(allowed, port, deadline, self._make_room)
            connection = HttpConnection(connected, server)
        if scheme == "https":
            try:
                await self._tls.start(connection, deadline, resumes=resumes, verifies=verifies)
            except BaseException:
                connection.close()
                raise
        return connection

    async def peer(self, connection: HttpConnection) -> Peer:
        """Return who is at the other end."""
        der, found = connection.tls and connection.tls.getpeercert(binary_form=True), None
        if der:
            with suppress(RuntimeError):  # There is no thread for it, which imports cryptography.
                found = await to_thread(parse_certificate, der, connection.server.host)
        return Peer(None if self._proxy else connection.address, found)

    def remember(self, connection: HttpConnection) -> None:
        """Remember how *connection*, which has got an answer, can be opened again for less."""
        self._tls.remember(connection)

    async def close(self) -> None:
        """End the lookups that are under way."""
        await self._name_servers.close()

    async def _through(self, proxy: EgressProxy, deadline: float) -> Proxy:
        try:
            return Proxy(proxy, await self._addresses(proxy.host, deadline), self._make_room)
        except NoAnswer as none:
            raise no_proxy(none) from none

    async def _addresses(self, host: str, deadline: float) -> Sequence[Address]:
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
