"""Connects to addresses that the outbound guard has allowed, and to no others."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Sequence
from errno import EINPROGRESS, ETIMEDOUT
from ipaddress import IPv4Address
from time import monotonic

from shared.adapters.http.connection import Endpoint, HttpConnection, NoAnswer, failed
from shared.adapters.http.outbound_guard import Address
from shared.http import Failure


def connect(addresses: Sequence[Address], endpoint: Endpoint, deadline: float) -> HttpConnection:
    """
    Connect to the first of *addresses* that accepts; each gets its share of the time left.

    Raises:
        NoAnswer: none did; the failure is that of the last one.
    """
    for left in range(len(addresses), 1, -1):
        share = (deadline - monotonic()) / left
        try:
            return _connect(addresses[-left], endpoint, monotonic() + share)
        except NoAnswer:
            pass  # The next address may do better.
    return _connect(addresses[-1], endpoint, deadline)


def _connect(address: Address, endpoint: Endpoint, deadline: float) -> HttpConnection:
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        raw = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise failed(error) from error
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
            failure = Failure.TIMED_OUT if code == ETIMEDOUT else Failure.SOCKET
            raise NoAnswer(failure, f"connecting to {address}: {os.strerror(code)}")  # noqa: TRY301 - closed below
    except BaseException:
        raw.close()
        raise
    return connection
