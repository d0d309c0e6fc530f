"""Connects to the first of several addresses that accepts: Happy Eyeballs (RFC 8305)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from errno import EADDRNOTAVAIL, ETIMEDOUT
from typing import Any, cast

from aiohappyeyeballs import start_connection
from aiohappyeyeballs.types import AddrInfoType

from shared.adapters.http.no_answer import NoAnswer, before, failed
from shared.adapters.http.outbound_guard import Address
from shared.errors import is_shortage
from shared.http import Failure

_ATTEMPT_SECONDS = 0.25  # until the next address is tried as well (section 5)

MakeRoom = Callable[[], bool]


async def connect(
    addresses: Sequence[Address], port: int, deadline: float, make_room: MakeRoom
) -> socket.socket:
    """
    Connect to one of *addresses*, at least one and in this order; return a non-blocking socket.

    The next address is tried as soon as one has failed, or beside those that have not answered for
    a quarter of a second. The first that accepts is taken, and the others are closed. *make_room*
    is as for `new_socket`.

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
