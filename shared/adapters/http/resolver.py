"""Resolves names to addresses within a deadline, which the system's resolver lacks."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from time import monotonic

from shared.adapters.cache import Cache
from shared.adapters.http.connection import NoAnswer
from shared.adapters.http.outbound_guard import Address
from shared.http import Failure

Lookup = Callable[[str], Sequence[Address]]

_REMEMBER_SECONDS = 5.0
_MAX_REMEMBERED = 1024


def system_lookup(host: str) -> Sequence[Address]:
    """
    Ask the operating system, in its order of preference.

    Raises:
        OSError: there is no such name, or no name server answered.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(ip_address(str(entry[4][0])) for entry in found)


class Resolver:
    """
    Looks up each name on a thread of its own, at most one at a time for a name.

    So a name whose servers are silent occupies one thread, however many requests wait for it, and
    each waits until its own deadline. Addresses are kept for five seconds.
    """

    def __init__(self, lookup: Lookup = system_lookup) -> None:
        self._lookup = lookup
        self._cache = Cache[Sequence[Address]](
            monotonic, lambda _: _REMEMBER_SECONDS, max_entries=_MAX_REMEMBERED
        )

    def addresses(self, host: str, deadline: float) -> Sequence[Address]:
        """
        Return the addresses of *host*, at least one; a literal address is returned as it is.

        Raises:
            NoAnswer: not found, or no name server answered until the deadline.
        """
        literal = as_literal(host)
        if literal is not None:
            return (literal,)
        try:
            found = self._cache.start(host, lambda: self._find(host))
        except RuntimeError as error:
            raise NoAnswer(Failure.RESOLUTION, f"no thread to resolve with: {error}") from error
        try:
            return found.result(timeout=max(0.0, deadline - monotonic()))
        except TimeoutError as error:
            # A lookup's own OSError of this kind can't be told apart, and means the same.
            raise NoAnswer(Failure.TIMED_OUT, "name not resolved in time") from error
        except (OSError, ValueError) as error:
            raise NoAnswer(Failure.RESOLUTION, f"{host}: {error}") from error

    def _find(self, host: str) -> Sequence[Address]:
        if found := self._lookup(host):
            return found
        raise OSError("no address")


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
