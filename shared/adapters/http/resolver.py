"""Resolves names to addresses, each until its own deadline."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import zip_longest
from time import monotonic
from typing import TYPE_CHECKING, Any

from shared import telemetry
from shared.adapters.http.no_answer import NoAnswer, is_done
from shared.adapters.http.outbound_guard import Address
from shared.clock import Deadline
from shared.http import Failure

if TYPE_CHECKING:
    from aiodns import DNSResolver
    from pycares import AddrInfoResult

Lookup = Callable[[str], Coroutine[Any, Any, Sequence[Address]]]

_TIMEOUT, _TRIES = 3.0, 2  # seconds for the first try of each name server; c-ares doubles it
_KEPT_SECONDS = 60.0  # of an answer, if its TTL is not shorter
_KEPT_SECONDS_WITHOUT_ADDRESS = 5.0
_MAX_ADDRESSES = 8  # of a name: its owner may list thousands, and each is tried and reported


class _Channel:
    """A channel of c-ares, which keeps answers, and how many lookups are under way on it."""

    def __init__(self, resolver: DNSResolver, made_at: float) -> None:
        self._resolver = resolver
        self.made_at = made_at
        self.without_address: set[str] = set()  # hosts, as it keeps the answers
        self.lookups = 0

    async def ask(self, host: str) -> AddrInfoResult:
        from aiodns import error

        self.lookups += 1
        try:
            return await self._resolver.getaddrinfo(host, type=socket.SOCK_STREAM)
        except error.DNSError as fault:
            if fault.args[0] in (error.ARES_ENODATA, error.ARES_ENOTFOUND):
                self.without_address.add(host)
            raise
        finally:
            self.lookups -= 1

    async def close(self) -> None:
        await self._resolver.close()


class NameServers:
    """
    Asks the hosts file and *servers*, or the system's, by c-ares.

    Names whose servers are silent keep no other waiting. Answers are kept as long as their servers
    say, but for a minute at most, and for five seconds those without an address. c-ares keeps
    ``NOERROR`` without records for an hour, even if one family has some, and has nothing to forget
    it with; so its channel is replaced. A new one has to learn which name server is dead: until the
    minute is over, names without an address are asked on a channel of their own. *clock* is in
    seconds.
    """

    def __init__(
        self, servers: Sequence[str] = (), *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._servers = servers
        self._clock = clock
        self._channels: dict[float, _Channel] = {}  # by the seconds after which each is replaced
        self._replaced: list[_Channel] = []  # with lookups under way

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
            found = await self._channel(host).ask(host)
        except aiodns.error.DNSError as error:
            code, reason = error.args
            if code == aiodns.error.ARES_ETIMEOUT:
                raise TimeoutError("no name server answered") from error
            raise (MemoryError if code in _shortage_codes() else OSError)(reason) from error
        except (AresError, RuntimeError) as error:  # no descriptor or thread
            raise MemoryError(str(error)) from error
        finally:
            await self._close_replaced()
        return [_address(node.addr[0]) for node in found.nodes]

    async def close(self) -> None:
        channels = [*self._channels.values(), *self._replaced]
        self._channels, self._replaced = {}, []
        for each in channels:
            await each.close()

    def _channel(self, host: str) -> _Channel:
        channel = self._latest(_KEPT_SECONDS)
        if host in channel.without_address:
            return self._latest(_KEPT_SECONDS_WITHOUT_ADDRESS)
        return channel

    def _latest(self, kept_seconds: float) -> _Channel:
        """Return the channel that is replaced after *kept_seconds*."""
        from aiodns import DNSResolver

        now, known = self._clock(), self._channels.get(kept_seconds)
        if known and now - known.made_at < kept_seconds:
            return known
        resolver = DNSResolver(self._servers, timeout=_TIMEOUT, tries=_TRIES)
        made = self._channels[kept_seconds] = _Channel(resolver, now)
        if known:
            self._replaced.append(known)
        return made

    async def _close_replaced(self) -> None:
        for each in [each for each in self._replaced if not each.lookups]:
            self._replaced.remove(each)
            await each.close()


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

    async def addresses(self, host: str, deadline: Deadline) -> Sequence[Address]:
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
        context = telemetry.own_context()  # others wait for it as well
        found = asyncio.get_running_loop().create_task(self._lookup(host), context=context)
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
