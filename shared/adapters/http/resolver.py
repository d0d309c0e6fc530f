"""Names to addresses, within a deadline, although the system's resolver knows none."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv6Address, ip_address
from threading import Lock, Thread
from time import monotonic

from shared.adapters.http.failure import NoAnswer
from shared.adapters.http.outbound_guard import Address
from shared.http import Failure

Lookup = Callable[[str], Sequence[Address]]

_REMEMBER_SECONDS = 5.0
_MAX_REMEMBERED = 1024
_MAX_LOOKUPS = 64


def system_lookup(host: str) -> Sequence[Address]:
    """
    Ask the operating system, in its order of preference.

    Raises:
        OSError: there is no such name, or nobody who knows.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(ip_address(str(entry[4][0])) for entry in found)


class Resolver:
    """
    Looks up each name on a thread of its own, at most one at a time for a name.

    A name whose servers are silent so holds one thread, however many requests wait for it, and
    they wait no longer than they want to. Successes are remembered for five seconds.
    """

    def __init__(self, lookup: Lookup = system_lookup) -> None:
        self._lookup = lookup
        self._lock = Lock()
        self._known: dict[str, tuple[float, Sequence[Address]]] = {}
        self._running: dict[str, Future[Sequence[Address]]] = {}

    def addresses(self, host: str, deadline: float) -> Sequence[Address]:
        """
        Return the addresses of *host*, at least one; an address is its own.

        Raises:
            NoAnswer: not found, or nobody answered until the deadline.
        """
        literal = as_literal(host)
        if literal is not None:
            return (literal,)
        with self._lock:
            known = self._known.get(host)
            if known is not None and known[0] > monotonic():
                return known[1]
            running = self._running.get(host) or self._start(host)
        try:
            return running.result(timeout=max(0.0, deadline - monotonic()))
        except TimeoutError as error:
            # A lookup's own OSError of this kind can't be told apart, and means the same.
            raise NoAnswer(Failure.TIMED_OUT, "name not resolved in time") from error
        except (OSError, ValueError) as error:
            raise NoAnswer(Failure.RESOLUTION, f"{host}: {error}") from error

    def _start(self, host: str) -> Future[Sequence[Address]]:
        if len(self._running) >= _MAX_LOOKUPS:
            raise NoAnswer(Failure.RESOLUTION, "too many names are being resolved")
        future: Future[Sequence[Address]] = Future()
        self._running[host] = future
        try:
            Thread(target=self._run, args=(host, future), name="resolve", daemon=True).start()
        except RuntimeError as error:
            del self._running[host]
            raise NoAnswer(Failure.RESOLUTION, f"no thread to resolve with: {error}") from error
        return future

    def _run(self, host: str, future: Future[Sequence[Address]]) -> None:
        found: Sequence[Address] = ()
        fault: Exception | None = None
        try:
            found = self._lookup(host)
        except (OSError, ValueError) as error:
            fault = error
        with self._lock:
            del self._running[host]
            if found:
                if len(self._known) >= _MAX_REMEMBERED:
                    self._known.clear()
                self._known[host] = (monotonic() + _REMEMBER_SECONDS, found)
        if found:
            future.set_result(found)
        else:
            future.set_exception(fault or OSError("no address"))


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
