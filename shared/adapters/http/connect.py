"""Connects to addresses that the outbound guard has allowed, and to no others."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Sequence
from errno import EADDRNOTAVAIL, EINPROGRESS, ETIMEDOUT
from ipaddress import IPv4Address

from shared.adapters.awake_clock import awake_seconds
from shared.adapters.http.connection import Endpoint, HttpConnection, NoAnswer, failed
from shared.adapters.http.outbound_guard import Address
from shared.http import Failure


def connect(
    addresses: Sequence[Address],
    endpoint: Endpoint,
    deadline: float,
    make_room: Callable[[], bool],
) -> HttpConnection:
    """
    Connect to the first of *addresses* that accepts; each gets its share of the time left.

    *make_room* is as for `new_socket`.

    Raises:
        NoAnswer: none did; the failure is that of the last one.
    """
    for left in range(len(addresses), 1, -1):
        share = (deadline - awake_seconds()) / left
        try:
            return _connect(addresses[-left], endpoint, awake_seconds() + share, make_room)
        except NoAnswer as error:
            if error.failure is Failure.SHORTAGE:
                raise
            # The next address may do better.
    return _connect(addresses[-1], endpoint, deadline, make_room)


def new_socket(family: socket.AddressFamily, make_room: Callable[[], bool]) -> socket.socket:
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


def _connect(
    address: Address, endpoint: Endpoint, deadline: float, make_room: Callable[[], bool]
) -> HttpConnection:
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    raw = new_socket(family, make_room)
    try:
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = HttpConnection(raw, endpoint)
        # The text of a parsed address never goes through a resolver.
        code = raw.connect_ex((str(address), endpoint[2]))
        if code == EINPROGRESS:
            connection.wait(select.POLLOUT, deadline)
            code = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise NoAnswer(_failure(code, family), f"connecting to {address}: {os.strerror(code)}")  # noqa: TRY301 - closed below
    except BaseException:
        raw.close()
        raise
    return connection


def _failure(code: int, family: socket.AddressFamily) -> Failure:
    if code == ETIMEDOUT:
        return Failure.TIMED_OUT
    # All local ports are in use; of IPv6, that this host has no address.
    if code == EADDRNOTAVAIL and family is socket.AF_INET:
        return Failure.SHORTAGE
    return Failure.SOCKET
