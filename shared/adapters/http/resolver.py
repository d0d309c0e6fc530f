"""Resolves names to addresses, each until its own deadline."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from shared.adapters.http.no_answer import NoAnswer, is_done
from shared.adapters.http.outbound_guard import Address
from shared.http import Failure

if TYPE_CHECKING:
    from aiodns import DNSResolver

Lookup = Callable[[str], Coroutine[Any, Any, Sequence[Address]]]

_TIMEOUT, _TRIES = 3.0, 2  # seconds for the first try of each name server; c-ares doubles it
_MAX_ADDRESSES = 8  # of a name: its owner may list thousands, and each is tried and reported


class NameServers:
    """
    Asks the hosts file and *servers*, or the system's, by c-ares.

    Names whose servers are silent keep no other waiting. Answers are kept as long as their servers
    say.
    """

    def __init__(self, servers: Sequence[str] = ()) -> None:
        self._servers = servers
        self._resolver: DNSResolver | None = None

    async def __call__(self, host: str) -> Sequence[Address]:
        """
        Look *host* up.

        Raises:
            OSError: there is no such name; TimeoutError: no name server answered.
            MemoryError: no name server could be asked.
        """
        import aiodns  # at the first name: cold starts
        from pycares import AresError

        try:
            if self._resolver is None:
                self._resolver = aiodns.DNSResolver(self._servers, timeout=_TIMEOUT, tries=_TRIES)
            found = await self._resolver.getaddrinfo(host, type=socket.SOCK_STREAM)
        except aiodns.error.DNSError as error:
            code, reason = error.args
            if code == aiodns.error.ARES_ETIMEOUT:
                raise TimeoutError("no name server answered") from error
            raise (MemoryError if code in _shortage_codes() else OSError)(reason) from error
        except (AresError, RuntimeError) as error:  # no descriptor or thread
            raise MemoryError(str(error)) from error
        return [_address(node.addr[0]) for node in found.nodes]

    async def close(self) -> None:
        resolver, self._resolver = self._resolver, None
        if resolver:
            await resolver.close()


def _shortage_codes() -> set[int]:
    """Return the codes of c-ares that say nothing about a name: nobody could be asked."""
    from aiodns import error

    return {
        error.ARES_ECANCELLED,
        error.ARES_ECONNREFUSED,  # no descriptor, no network, or no name server that listens
        error.ARES_EDESTRUCTION,
        error.ARES_EFILE,
        error.ARES_ENOMEM,
        error.ARES_ENOTINITIALIZED,
    }


def _address(found: bytes) -> Address:
    return ip_address(found.decode().partition("%")[0])


class Resolver:
    """Looks names up, each at most once at a time, however many requests wait for it."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._under_way: dict[str, asyncio.Future[Sequence[Address]]] = {}

    async def addresses(self, host: str, deadline: float) -> Sequence[Address]:
        """
        Return the addresses of *host*, at least one and at most 8, in the order to try them in.

        A literal address is returned as it is.

        Raises:
            NoAnswer: not found, or no name server answered until the deadline.
        """
        literal = as_literal(host)
        if literal is not None:
            return (literal,)
        found = self._under_way.get(host) or self._begin(host)
        if not await is_done(found, deadline):
            raise NoAnswer(Failure.TIMED_OUT, "name not resolved in time")
        try:
            addresses = found.result()
        except TimeoutError as error:
            raise NoAnswer(Failure.TIMED_OUT, "name not resolved in time") from error
        except MemoryError as error:
            raise NoAnswer(Failure.SHORTAGE, f"resolving {host}: {error}") from error
        except (OSError, ValueError) as error:
            raise NoAnswer(Failure.RESOLUTION, f"{host}: {error}") from error
        if not addresses:
            raise NoAnswer(Failure.RESOLUTION, f"{host}: no address")
        return by_turns(addresses)[:_MAX_ADDRESSES]

    def _begin(self, host: str) -> asyncio.Future[Sequence[Address]]:
        # In a context of its own: others wait for it as well.
        found = asyncio.get_running_loop().create_task(self._lookup(host), context=Context())
        self._under_way[host] = found
        found.add_done_callback(partial(self._end, host))
        return found

    def _end(self, host: str, found: asyncio.Future[Sequence[Address]]) -> None:
        del self._under_way[host]
        if not found.cancelled():
            found.exception()  # which is nobody's if all have stopped waiting


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
