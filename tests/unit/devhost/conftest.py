"""A driven clock, a queue in memory, and functions without an app."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

import pytest

from devhost.errors import InvocationError
from devhost.functions.loader import Function
from devhost.functions.metadata import (
    FunctionMetadata,
    HttpTrigger,
    QueueTrigger,
    TimerTrigger,
    Trigger,
)
from devhost.host_json import QueueOptions
from devhost.queue.listener import QueueListener, poison_queue_name
from devhost.queue.storage import ReceivedMessage
from devhost.storage.errors import QueueGoneError, StaleReceiptError
from pushgrid.testing.memory import DrivenLoop, FakeClock

START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def loop(clock: FakeClock) -> Iterator[DrivenLoop]:
    loop = DrivenLoop(clock)
    yield loop
    loop.end()


def seconds_of(clock: FakeClock) -> float:
    """Return how long a test lasts, in milliseconds at best."""
    return round((clock.now() - START).total_seconds(), 3)


@dataclass
class _Stored:
    message: ReceivedMessage
    visible_at: float


@dataclass
class MemoryQueue:
    """A queue that behaves like storage."""

    clock: FakeClock
    is_there: bool = True
    stored: dict[str, _Stored] = field(default_factory=dict)
    #: What was asked, and when: ("receive", 0.1), …
    calls: list[tuple[str, float]] = field(default_factory=list)
    #: Raised by the next calls of that name, one each.
    faults: dict[str, list[Exception]] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    ids: Any = field(default_factory=itertools.count)

    def put(self, text: str, **changes: Any) -> str:
        number = str(next(self.ids))
        message = ReceivedMessage(
            id=number,
            pop_receipt="",
            dequeue_count=0,
            insertion_time=START,
            expiration_time=START + timedelta(days=7),
            next_visible_time=START,
            text=text,
        )
        self.stored[number] = _Stored(replace(message, **changes), self.seconds)
        return number

    @property
    def seconds(self) -> float:
        return seconds_of(self.clock)

    @property
    def texts(self) -> list[str]:
        return [each.message.text for each in self.stored.values()]

    def times(self, call: str) -> list[float]:
        return [at for name, at in self.calls if name == call]

    async def receive(self, count: int, hidden: timedelta) -> list[ReceivedMessage]:
        await self._enter("receive")
        visible = [each for each in self.stored.values() if each.visible_at <= self.seconds]
        for each in visible[:count]:
            self._hide(each, hidden)
            each.message = replace(each.message, dequeue_count=each.message.dequeue_count + 1)
        return [each.message for each in visible[:count]]

    async def delete(self, message_id: str, pop_receipt: str) -> None:
        await self._enter("delete")
        del self.stored[self._current(message_id, pop_receipt).message.id]

    async def hide(self, message_id: str, pop_receipt: str, hidden: timedelta) -> str:
        await self._enter("hide")
        return self._hide(self._current(message_id, pop_receipt), hidden)

    async def send(self, text: str) -> None:
        await self._enter("send", missing_is_fine=True)
        self.is_there = True
        self.put(text)

    async def _enter(self, call: str, *, missing_is_fine: bool = False) -> None:
        self.calls.append((call, self.seconds))
        await asyncio.sleep(self.delays.get(call, 0))
        if self.faults.get(call):
            raise self.faults[call].pop(0)
        if not self.is_there and not missing_is_fine:
            raise QueueGoneError

    def _current(self, message_id: str, pop_receipt: str) -> _Stored:
        each = self.stored.get(message_id)
        if each is None or each.message.pop_receipt != pop_receipt:
            raise StaleReceiptError
        return each

    def _hide(self, each: _Stored, hidden: timedelta) -> str:
        each.visible_at = self.seconds + hidden.total_seconds()
        receipt = f"receipt {next(self.ids)}"
        each.message = replace(
            each.message,
            pop_receipt=receipt,
            next_visible_time=START + timedelta(seconds=each.visible_at),
        )
        return receipt


@pytest.fixture
def queue(clock: FakeClock) -> MemoryQueue:
    return MemoryQueue(clock)


@pytest.fixture
def poison(clock: FakeClock) -> MemoryQueue:
    return MemoryQueue(clock, is_there=False)


def _maker(trigger: Trigger, function: str) -> Callable[..., Function]:
    """Return a maker of functions with that trigger; its keywords are members of the trigger."""

    def make(call: Any = None, *, name: str = function, **members: Any) -> Function:
        metadata = FunctionMetadata(
            name=name,
            script=Path(name, "__init__.py"),
            entry_point="main",
            trigger=replace(trigger, **members),
            returns_http=isinstance(trigger, HttpTrigger),
            disabled=False,
        )
        return Function(metadata=metadata, call=call, is_async=inspect.iscoroutinefunction(call))

    return make


@pytest.fixture
def http_function() -> Callable[..., Function]:
    return _maker(HttpTrigger(name="_req", route=None, methods=frozenset()), "web")


@pytest.fixture
def timer_function() -> Callable[..., Function]:
    trigger = TimerTrigger(name="tick", schedule="", run_on_startup=False, use_monitor=True)
    return _maker(trigger, "work")


class App:
    """A stand-in for the app's functions that records each call."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.calls: list[tuple[float, str, str]] = []
        self.seconds = 0.0
        self.fails = False

    async def invoke(self, _function, data, metadata):
        self.calls.append((seconds_of(self.clock), data.value, metadata["DequeueCount"].value))
        await asyncio.sleep(self.seconds)
        if self.fails:
            raise InvocationError

    @property
    def times(self):
        return [at for at, _, _ in self.calls]


@pytest.fixture
def app(clock):
    return App(clock)


@pytest.fixture
def a_listener(app, queue, poison):
    """Return a listener, which does not run yet."""
    trigger = QueueTrigger(name="_message", queue="work", connection="S", binary=False)
    function = _maker(trigger, "work")

    def make(name="work", longest_outage=inf, **options):
        return QueueListener(
            function=function(queue=name),
            source=queue,
            poison=poison if poison_queue_name(name) else None,
            options=QueueOptions(**{"base64": False} | options),
            invoke=app.invoke,
            uniform=lambda low, high: (low + high) / 2,
            longest_outage=longest_outage,
        )

    return make


@pytest.fixture
def listen(a_listener, loop):
    """Run a listener for *seconds*, drain it and return it."""

    def go(seconds, *, name="work", during=None, **options):
        listener = a_listener(name, **options)

        async def scene() -> None:
            running = asyncio.create_task(listener.run())
            if during:
                await during(listener)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.shield(running)
            listener.stop()
            await running
            await listener.drain()

        loop.run(scene())
        return listener

    return go


@pytest.fixture
def untouched_logging():
    """Restore the root logger, which the host configures for itself."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("azure.core", "uvicorn"):
        logging.getLogger(name).setLevel(logging.NOTSET)
