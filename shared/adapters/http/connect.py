"""Connects to the first of several addresses that accepts: Happy Eyeballs (RFC 8305)."""

from __future__ import annotations

import math
import os
import select
import socket
from collections.abc import Callable, Sequence
from errno import EADDRNOTAVAIL, EINPROGRESS, ETIMEDOUT

from shared.adapters.awake_clock import awake_seconds
from shared.adapters.http.connection import NoAnswer, failed
from shared.adapters.http.outbound_guard import Address
from shared.http import Failure

_ATTEMPT_SECONDS = 0.25  # until the next address is tried as well (section 5)


MakeRoom = Callable[[], bool]


def connect(
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
    race = _Race(port, make_room)
    waiting = [*addresses]
    try:
        while waiting or race.running:
            until = deadline
            if waiting:
                race.start(waiting.pop(0))
                until = min(deadline, awake_seconds() + _ATTEMPT_SECONDS) if waiting else deadline
            if winner := race.run(until):
                return winner
            if awake_seconds() >= deadline:
                race.fail(NoAnswer(Failure.TIMED_OUT, "no connection in time"))
                break
    finally:
        race.close()
    raise race.failure


def new_socket(family: socket.AddressFamily, make_room: MakeRoom) -> socket.socket:
    """
    Open a TCP socket; *make_room* closes others if there is no room, and tells whether it did.

    Raises:
        NoAnswer: a shortage: the process may have no more.
    """
    while True:
        try:
            return socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            reason = failed(error)
            if reason.failure is not Failure.SHORTAGE or not make_room():
                raise reason from error


class _Race:
    """The attempts under way, by file descriptor, and the *failure* of those that ended."""

    def __init__(self, port: int, make_room: MakeRoom) -> None:
        self._port = port
        self._make_room = make_room
        self._poller = select.poll()
        self.running: dict[int, tuple[socket.socket, Address]] = {}
        self.failure = NoAnswer(Failure.SOCKET, "no address")

    def start(self, address: Address) -> None:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004
        try:
            raw = new_socket(family, self._make_room)
        except NoAnswer as none:
            self.fail(none)
            return
        self.running[raw.fileno()] = raw, address
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The text of a parsed address never goes through a resolver.
        code = raw.connect_ex((str(address), self._port))
        if code in {0, EINPROGRESS}:
            self._poller.register(raw, select.POLLOUT)
        else:
            self._end(raw.fileno(), code)

    def run(self, until: float) -> socket.socket | None:
        """Return the socket of the first attempt that succeeds; ``None`` after any has failed."""
        milliseconds = max(0, math.ceil((until - awake_seconds()) * 1000)) if self.running else 0
        for number, _ in self._poller.poll(milliseconds):
            raw, _ = self.running[number]
            self._poller.unregister(number)
            code = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not code:
                del self.running[number]
                return raw
            self._end(number, code)
        return None

    def fail(self, failure: NoAnswer) -> None:
        if self.failure.failure is not Failure.SHORTAGE:
            self.failure = failure

    def close(self) -> None:
        for raw, _ in self.running.values():
            raw.close()

    def _end(self, number: int, code: int) -> None:
        raw, address = self.running.pop(number)
        raw.close()
        failure = Failure.TIMED_OUT if code == ETIMEDOUT else Failure.SOCKET
        # All local ports are in use; of IPv6, that this host has no address.
        if code == EADDRNOTAVAIL and raw.family is socket.AF_INET:
            failure = Failure.SHORTAGE
        self.fail(NoAnswer(failure, f"connecting to {address}: {os.strerror(code)}"))
