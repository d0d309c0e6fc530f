"""Counts the connections that are being opened, and keeps others waiting for their turn."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic

from shared.adapters.http.no_answer import NoAnswer, is_done
from shared.adapters.http.request_writer import Server
from shared.clock import Deadline
from shared.delivery.opening_bound import COUNTED, REPEATED_SYN, OpeningBound
from shared.http import Failure

MOST_HOSTS = 4096  # that are remembered
_REMEMBERED = 60.0  # seconds of idleness: as long as idle connections are kept
_EARLY = 0.001  # seconds by which a timer of the loop may come before its time
_TIMEOUT = timedelta(seconds=30)  # of a request that waits for its turn

Again = Callable[[], None]


@dataclass(slots=True, eq=False)
class _Host:
    """What is known of one host and port."""

    bound: OpeningBound = field(default_factory=OpeningBound)
    used_at: float = 0.0  # seconds, as all times here
    # How those that were refused ask again: each once, in order.
    waiting: dict[Again, None] = field(default_factory=dict)
    # Promises to requests that are about to be sent: of new connections, and of idle ones.
    promised_new: deque[Opening] = field(default_factory=deque)
    promised_idle: int = 0
    promised_idle_until: float = 0.0  # then these promises are over

    @property
    def is_idle(self) -> bool:
        return not (self.bound.opening or self.waiting)

    def drop_outdated(self, now: float) -> None:
        """Drop the promises of requests that were not sent."""
        while self.promised_new and not self.promised_new[0].counts:
            self.promised_new.popleft()
        if now >= self.promised_idle_until:
            self.promised_idle = 0


class Opening:
    """The permission to open one connection, which counts as `OpeningBound` says."""

    def __init__(self, openings: Openings, host: _Host) -> None:
        self._openings = openings
        self._host = host
        self.counts = True
        self._is_connecting = self._is_connected = False
        self._began_at = openings.clock()
        self._timer: asyncio.TimerHandle | None = None
        self._look_again(COUNTED)

    def connecting(self) -> None:
        """Note that the connect begins: until now a name was resolved."""
        self._is_connecting = True
        self._began_at = self._openings.clock()
        if not self.counts:
            self.counts = True
            self._host.bound = self._host.bound.counted()
        self._look_again(COUNTED)

    def connected(self) -> None:
        """Note that the peer has accepted the connection."""
        self._is_connected = True
        now, host = self._openings.clock(), self._host
        if now - self._began_at >= REPEATED_SYN:
            host.bound = host.bound.delayed(self._began_at, now)
        elif not self.counts:
            host.bound = host.bound.accepted(now)
            self._openings.ask_again(host)

    def answered(self, *, kept: bool) -> None:
        """Note the first answer, after which the peer has *kept* the connection or closes it."""
        if self.counts:
            self._host.bound = self._host.bound.answered(self._openings.clock(), kept=kept)
        self.end()

    def end(self) -> None:
        """Count no longer: it has failed, is not needed, or there is nothing more to learn."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self._release()

    def _release(self) -> None:
        if self.counts:
            self.counts = False
            self._host.bound = self._host.bound.released()
            self._openings.ask_again(self._host)

    def _look_again(self, after: float) -> None:
        if self._timer:
            self._timer.cancel()
        left = self._began_at + after - self._openings.clock()
        self._timer = asyncio.get_running_loop().call_later(left, self._look, after)

    def _look(self, after: float) -> None:
        """Learn what time tells; timers count the time in which the process was stopped."""
        self._timer = None
        now, host = self._openings.clock(), self._host
        if now - self._began_at < after - _EARLY:
            self._look_again(after)
        elif after == REPEATED_SYN:
            host.bound = host.bound.delayed(self._began_at, now)
        else:
            if self._is_connected:
                host.bound = host.bound.accepted(now)
            elif self._is_connecting:
                self._look_again(REPEATED_SYN)
            self._release()


class Openings:
    """
    Applies `OpeningBound` to each host and port; the state belongs to the event loop.

    A request that is about to be sent gets a promise, and redeems it when it is sent: any promise
    for its host is as good. One that is not redeemed ends as if its connection were silent. Hosts
    are forgotten after a minute, or when there are too many, but none to which anything is being
    opened. Unless *is_bounded* each connection is opened at once.
    """

    def __init__(self, clock: Callable[[], float] = monotonic, *, is_bounded: bool = True) -> None:
        self.clock = clock
        self._is_bounded = is_bounded
        self._is_stopping = False
        self._hosts: OrderedDict[tuple[str, int], _Host] = OrderedDict()  # the latest used last
        self._turns: set[asyncio.Future[Opening]] = set()

    def promise(self, server: Server, idle: int, again: Again) -> bool:
        """
        Promise a request one of *idle* connections, or a new one.

        ``False``: neither is left. *again* is called on the loop when it is worth asking again.
        """
        now = self.clock()
        host = self._host(server, now)
        host.drop_outdated(now)
        if host.promised_idle < idle:
            host.promised_idle += 1
            host.promised_idle_until = now + COUNTED
            return True
        if opening := self._open(host):
            host.promised_new.append(opening)
            return True
        host.waiting[again] = None
        return False

    def claim(self, server: Server, *, reuses: bool) -> Opening | None:
        """Redeem a promise, if there is one; a request that *reuses* a connection opens none."""
        now = self.clock()
        host = self._host(server, now)
        host.drop_outdated(now)
        if host.promised_idle and (reuses or not host.promised_new):
            host.promised_idle -= 1
            return None
        opening = host.promised_new.popleft() if host.promised_new else None
        if opening and reuses:
            opening.end()
            return None
        return opening

    async def turn(self, server: Server) -> Opening:
        """
        Wait in line for the permission to open a connection.

        Raises:
            NoAnswer: a shortage: there was none in half a minute, or the app stops.
        """
        host, loop = self._host(server, self.clock()), asyncio.get_running_loop()
        turn: asyncio.Future[Opening] = loop.create_future()

        def ask() -> None:
            if turn.done():
                return
            if opening := self._open(host):
                turn.set_result(opening)
            elif self._is_stopping:
                _refuse(turn)
            else:
                host.waiting[ask] = None

        ask()
        self._turns.add(turn)
        try:
            if await is_done(turn, Deadline(_TIMEOUT, self.clock)):
                return turn.result()
        finally:
            turn.cancel()
            self._turns.discard(turn)
            host.waiting.pop(ask, None)
        detail = f"no connection to {server.host}:{server.port} could be opened in time"
        raise NoAnswer(Failure.SHORTAGE, detail)

    def stop(self) -> None:
        """Let nobody wait for a turn any more: the app stops."""
        self._is_stopping = True
        for turn in self._turns:
            _refuse(turn)

    def ask_again(self, host: _Host) -> None:
        """Let those that wait ask again soon, the first first, until there is no room."""
        if host.waiting:
            asyncio.get_running_loop().call_soon(self._ask_again, host)

    def _ask_again(self, host: _Host) -> None:
        while host.waiting and host.bound.has_room:
            again = next(iter(host.waiting))
            del host.waiting[again]
            again()
        if host.waiting:
            host.bound = host.bound.refused(self.clock())

    def _open(self, host: _Host) -> Opening | None:
        host.bound, may_open = host.bound.ask(self.clock())
        return Opening(self, host) if may_open else None

    def _host(self, server: Server, now: float) -> _Host:
        if not self._is_bounded:
            return _Host()
        key = server.host, server.port
        if key not in self._hosts:
            self._forget(now)
            self._hosts[key] = _Host()
        self._hosts.move_to_end(key)
        host = self._hosts[key]
        host.used_at = now
        return host

    def _forget(self, now: float) -> None:
        """Forget those that were idle for long and, if there are too many, one more."""
        idle = (key for key, host in self._hosts.items() if host.is_idle)
        while (key := next(idle, None)) is not None:
            is_old = now - self._hosts[key].used_at >= _REMEMBERED
            if not is_old and len(self._hosts) < MOST_HOSTS:
                return
            del self._hosts[key]
            idle = (key for key, host in self._hosts.items() if host.is_idle)


def _refuse(turn: asyncio.Future[Opening]) -> None:
    if not turn.done():
        turn.set_exception(NoAnswer(Failure.SHORTAGE, "the app stops"))
