"""Storage that all processes share: each request takes time, may fail, and may outlive its caller."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any, NamedTuple, Protocol

from pushgrid.testing.memory import START, FakeClock, MemoryStore
from pushgrid.testing.memory.clock import Elsewhere
from shared.adapters.watched_clock import WatchedClock
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable, StorageUnreachable, Unstorable
from tests.simulation.kernel import Kernel, Pool, Process

GIVES_UP = 16.0  # seconds in which a request to storage ends (docs/decisions.md)
SLOW = 2.0  # seconds: a request that takes longer is a fault
LONGEST = 60.0  # seconds until a request has its effect
USUAL = 0.02
PORTS = ("documents", "queues", "payloads", "dead_letters", "attempts", "counts")


class StorageClock(FakeClock):
    """The clock of storage, which is right."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel

    def now(self) -> datetime:
        return START + timedelta(seconds=self._kernel.now)

    @property
    def elsewhere(self) -> Elsewhere:
        return Elsewhere(self.now)

    def monotonic(self) -> float:
        return self._kernel.now


class Request(NamedTuple):
    """A request of a process to storage."""

    process: Process
    name: str  # of port and method
    args: tuple[Any, ...]

    @property
    def queue(self) -> Queue:
        return self.args[0]  # type: ignore[no-any-return]


class Observer(Protocol):
    """Hears what becomes of requests."""

    def took_effect(self, request: Request, result: Any, *, again: bool = False) -> None:
        """Hear that a request has been done; *again*: once more than it was sent."""

    def was_answered(self, request: Request, result: Any) -> None:
        """Hear that its process knows the result."""

    def was_not_answered(self, request: Request) -> None:
        """Hear that its process gives it up: it may or may not take effect."""


class Storm(NamedTuple):
    """How often requests fail, from a time on until another."""

    since: float
    until: float
    kind: str
    share: float  # of the requests
    ports: tuple[str, ...] = ()  # all, if none is named; accounts of dead letters by their names


class Fate(NamedTuple):
    """What becomes of a request."""

    before: float = 0.0  # seconds until it has its effect
    after: float = 0.0  # and until its answer comes
    is_done: bool = True
    is_answered: bool = True
    is_twice: bool = False


class Weather:
    """Draws the fate of requests; *seen* counts each kind of fault that occurred."""

    def __init__(self, chance: Random, storms: Sequence[Storm]) -> None:
        self._chance = chance
        self._storms = storms
        self.seen: Counter[str] = Counter()

    def fate(self, now: float, request: Request) -> Fate:
        draw = self._chance.random
        for storm in self._storms:
            if storm.since <= now < storm.until and _concerns(storm, request) and draw() < storm.share:
                self.seen[storm.kind] += 1
                return self._of(storm.kind, request)
        takes = draw() * USUAL
        return Fate(before=takes) if draw() < 0.5 else Fate(after=takes)

    def _of(self, kind: str, request: Request) -> Fate:
        draw = self._chance.random
        if kind == "slow":
            return Fate(draw() * GIVES_UP / 2, draw() * GIVES_UP / 2)
        if kind == "fails before":
            return Fate(draw() * 3, is_done=False, is_answered=False)
        if kind == "fails after":
            return Fate(draw() * 3, draw() * 3, is_answered=False)
        if kind == "takes effect late":
            return Fate(GIVES_UP + draw() * (LONGEST - GIVES_UP), is_answered=False)
        if kind == "stored twice" and request.name == "queues.put":
            return Fate(draw(), draw(), is_twice=True)
        return Fate(draw() * GIVES_UP, is_done=False, is_answered=False)  # an outage


def _concerns(storm: Storm, request: Request) -> bool:
    if not storm.ports:
        return True
    port = request.name.partition(".")[0]
    is_account = port == "dead_letters" and request.args
    account = getattr(request.args[0], "account", "") if is_account else ""
    return port in storm.ports or bool(account and account in storm.ports)


class Storage:
    """The stored state, and the way to it."""

    def __init__(self, kernel: Kernel, weather: Weather) -> None:
        self.kernel = kernel
        self.weather = weather
        self.clock = StorageClock(kernel)
        self.store = MemoryStore(self.clock, _no_sender)
        self.observers: list[Observer] = []
        # Called before and after the effect of a request: a process may be killed there.
        self.between: Callable[[Request, str], object] = lambda _request, _when: None

    def request(self, request: Request, effect: Callable[[], Any], clock: WatchedClock) -> Any:
        """Make a request, in a strand of its process. Raises StorageUnavailable."""
        kernel, began = self.kernel, self.kernel.now
        fate = self.weather.fate(began, request)
        self.between(request, "before")
        if fate.before > GIVES_UP:
            kernel.at(began + fate.before, lambda: self._late(request, effect))
            kernel.sleep(GIVES_UP)
        elif fate.before:
            kernel.sleep(fate.before)
        result, fault = None, None
        if fate.is_done and fate.before <= GIVES_UP:
            result, fault = self._done(request, effect, again=False)
            if fate.is_twice and not fault:
                self._done(request, effect, again=True)
        self.between(request, "after")
        if fate.after:
            kernel.sleep(fate.after)
        if not fate.is_answered:
            for each in self.observers:
                each.was_not_answered(request)
            raise StorageUnreachable if fate.before > 1 else StorageUnavailable
        clock.storage_answered(f"{self.clock.now():%a, %d %b %Y %H:%M:%S GMT}", kernel.now - began)
        for each in self.observers:
            each.was_answered(request, fault or result)
        if fault:
            raise fault
        return result

    def _late(self, request: Request, effect: Callable[[], Any]) -> None:
        self._done(request, effect, again=False)

    def _done(
        self, request: Request, effect: Callable[[], Any], *, again: bool
    ) -> tuple[Any, Exception | None]:
        try:
            result = effect()
        except Exception as error:  # noqa: BLE001 - the answer of storage
            return None, error
        if isinstance(result, Iterator):
            result = list(result)
        for each in self.observers:
            each.took_effect(request, result, again=again)
        return result, None


class View:
    """The store as one process has it: implements ``Store``."""

    def __init__(self, storage: Storage, process: Process, clock: WatchedClock) -> None:
        self.account = storage.store.account
        self._storage, self._process, self._clock = storage, process, clock
        self.documents: Any
        self.queues: Any
        self.payloads: Any
        self.dead_letters: Any
        self.attempts: Any
        self.counts: Any
        for name in PORTS:
            setattr(self, name, _Port(self, name, getattr(storage.store, name)))
        self.sender = Sender(self.queues, Pool(process, 1_000_000))

    def call(self, name: str, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Make a request. Raises StorageUnavailable."""
        request = Request(self._process, name, (*args, *named.values()))
        return self._storage.request(request, partial(method, *args, **named), self._clock)


class _Port:
    """A port of the store, each call of which is a request."""

    def __init__(self, view: View, name: str, port: Any) -> None:
        self._view, self._name, self._port = view, name, port

    def __getattr__(self, method: str) -> Callable[..., Any]:
        call = partial(self._view.call, f"{self._name}.{method}", getattr(self._port, method))
        setattr(self, method, call)
        return call


class Sender:
    """Implements ``Sender``: each put is a request of its own."""

    def __init__(self, queues: Any, off_loop: Pool) -> None:
        self._queues, self._off_loop = queues, off_loop

    async def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        return await self._off_loop(lambda: self._queues.put(queue, text, visible_in))

    async def put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta = timedelta()
    ) -> Sequence[Receipt | StorageUnavailable]:
        puts = (self.put(queue, text, visible_in) for text in texts)
        found = await asyncio.gather(*puts, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, StorageUnavailable):
                raise each
        return found  # type: ignore[return-value]

    async def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        return await self._off_loop(lambda: self._queues.take_back(queue, receipt))

    async def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        return await self._off_loop(
            lambda: self._queues.replace(queue, receipt, text, visible_in)
        )


async def _no_sender(_: object) -> Any:
    raise AssertionError("the view of a process has its sender")
