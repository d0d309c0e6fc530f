"""Opens tunnels to addresses through a proxy, by CONNECT (RFC 9110, 9.3.6)."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import NamedTuple

from shared.adapters.awake_clock import awake_seconds
from shared.adapters.http.connect import MakeRoom, connect
from shared.adapters.http.connection import HttpConnection, Server
from shared.adapters.http.no_answer import NoAnswer
from shared.adapters.http.outbound_guard import Address
from shared.http import Failure
from shared.network_settings import EgressProxy

_SUCCESSFUL = range(200, 300)
_AUTHENTICATION_REQUIRED = 407


class Proxy(NamedTuple):
    """A proxy at *addresses*; *make_room* is as for `new_socket`."""

    setting: EgressProxy
    addresses: Sequence[Address]
    make_room: MakeRoom

    async def connect(
        self, targets: Sequence[Address], server: Server, deadline: float
    ) -> HttpConnection:
        """
        Open a tunnel to the first of *targets* that the proxy reaches; each gets its share of time.

        The proxy gets an address and not the name, so that it reaches what the guard has judged.

        Raises:
            NoAnswer: it reached none; the failure is that of the last one, or a shortage of ours
                if the proxy can't be used.
        """
        for left in range(len(targets), 1, -1):
            until = awake_seconds() + (deadline - awake_seconds()) / left
            try:
                return await self._open(targets[-left], server, until)
            except NoAnswer as none:
                if none.failure is Failure.SHORTAGE:
                    raise
                # The next address may do better.
        return await self._open(targets[-1], server, deadline)

    async def _open(self, address: Address, server: Server, deadline: float) -> HttpConnection:
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
