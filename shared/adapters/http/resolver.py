"""Resolves names to addresses, each until its own deadline."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import zip_longest
from threading import Lock
from typing import Any

from shared.adapters.awake_clock import awake_seconds
from shared.adapters.http.connection import NoAnswer
from shared.adapters.http.outbound_guard import Address
from shared.http import Failure

Found = Future[Sequence[Address]]
Lookup = Callable[[str], Found]

_TIMEOUT, _TRIES = 3.0, 2  # seconds for the first try of each name server; c-ares doubles it
_MAX_ADDRESSES = 8  # of a name: its owner may list thousands, and each is tried and told of


class NameServers:
    """
    Asks the hosts file and the system's name servers, by c-ares.

    One thread serves any number of names, so those whose servers are silent keep no other waiting.
    Answers are kept as long as their servers say. *options* are those of the c-ares channel.
    """

    def __init__(self, **options: Any) -> None:
        self._options = {"timeout": _TIMEOUT, "tries": _TRIES} | options
        self._lock = Lock()
        self._channel: Any = None

    def __call__(self, host: str) -> Found:
        """
        Begin to look *host* up.

        The result may be an OSError, or a MemoryError if no name server could be asked.
        """
        import pycares

        found: Found = Future()

        def end(result: Any, code: int | None) -> None:
            if code is None:
                found.set_result([_address(node.addr[0]) for node in result.nodes])
            elif code == pycares.errno.ARES_ETIMEOUT:
                found.set_exception(TimeoutError("no name server answered"))
            elif code in _ours():
                found.set_exception(MemoryError(pycares.errno.strerror(code)))
            else:
                found.set_exception(OSError(pycares.errno.strerror(code)))

        try:
            with self._lock:
                if self._channel is None:
                    self._channel = pycares.Channel(**self._options)
                channel = self._channel
            channel.getaddrinfo(host, None, type=socket.SOCK_STREAM, callback=end)
        except (pycares.AresError, RuntimeError) as error:  # no descriptor or thread; just closed
            found.set_exception(MemoryError(str(error)))
        return found

    def close(self) -> None:
        """End the lookups that are under way."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel:
            channel.close()


def _ours() -> set[int]:
    """Return the codes of c-ares that say nothing about a name: nobody could be asked."""
    from pycares import errno

    return {
        errno.ARES_ECANCELLED,
        errno.ARES_ECONNREFUSED,  # no descriptor, no network, or no name server that listens
        errno.ARES_EDESTRUCTION,
        errno.ARES_EFILE,
        errno.ARES_ENOMEM,
        errno.ARES_ENOTINITIALIZED,
    }


def _address(found: bytes) -> Address:
    return ip_address(found.decode().partition("%")[0])


class Resolver:
    """Looks names up, each at most once at a time, however many requests wait for it."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._lock = Lock()
        self._under_way: dict[str, Found] = {}

    def addresses(self, host: str, deadline: float) -> Sequence[Address]:
        """
        Return the addresses of *host*, at least one and at most 8, in the order to try them in.

        A literal address is returned as it is.

        Raises:
            NoAnswer: not found, or no name server answered until the deadline.
        """
        literal = as_literal(host)
        if literal is not None:
            return (literal,)
        try:
            addresses = self._wait(self._start(host), deadline)
        except TimeoutError as error:
            raise NoAnswer(Failure.TIMED_OUT, "name not resolved in time") from error
        except MemoryError as error:
            raise NoAnswer(Failure.SHORTAGE, f"resolving {host}: {error}") from error
        except (OSError, ValueError) as error:
            raise NoAnswer(Failure.RESOLUTION, f"{host}: {error}") from error
        if not addresses:
            raise NoAnswer(Failure.RESOLUTION, f"{host}: no address")
        return by_turns(addresses)[:_MAX_ADDRESSES]

    def _start(self, host: str) -> Found:
        with self._lock:
            found = self._under_way.get(host)
            if found is None or found.done():
                found = self._under_way[host] = self._lookup(host)
        # Without the lock: c-ares calls back with its own lock held.
        found.add_done_callback(lambda _: self._under_way.pop(host, None))
        return found

    def _wait(self, found: Found, deadline: float) -> Sequence[Address]:
        while True:
            try:
                return found.result(timeout=max(0.0, deadline - awake_seconds()))
            except TimeoutError:
                # The process may have been stopped meanwhile.
                if found.done() or awake_seconds() >= deadline:
                    raise


def by_turns(addresses: Sequence[Address]) -> list[Address]:
    """Order *addresses* so that the families take turns, the first one's first (RFC 8305, 4)."""
    first = [each for each in addresses if each.version == addresses[0].version]
    other = [each for each in addresses if each.version != addresses[0].version]
    return [each for pair in zip_longest(first, other) for each in pair if each]


def as_literal(host: str) -> Address | None:
    """
    Return the address that *host* is, in any way of writing that connecting understands.

    ``2130706433`` and ``0x7f.1`` are IPv4 addresses to the operating system, so they are here.
    """
    if ":" in host:
        return IPv6Address(host)
    if not host[0].isdigit():
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None
