"""A driven clock, a queue in memory, and functions without an app."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import itertools
import logging
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
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

START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop that does not wait but sets its clock to the next timer."""

    def __init__(self) -> None:
        super().__init__(_JumpingSelector(self))
        self.seconds = 0.0

    def time(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everything waits, and no timer is left")
        self._loop.seconds += max(timeout, 0)
        return super().select(0)


@pytest.fixture
def loop():
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        yield runner.get_loop()


@pytest.fixture
def run(loop: JumpingLoop) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    def run_it(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return loop.run_until_complete(coroutine)

    return run_it


@dataclass
class _Stored:
    message: ReceivedMessage
    visible_at: float


@dataclass
class MemoryQueue:
    """A queue that behaves like storage, on the loop's clock."""

    loop: JumpingLoop
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
        self.stored[number] = _Stored(replace(message, **changes), self.loop.time())
        return number

    @property
    def texts(self) -> list[str]:
        return [each.message.text for each in self.stored.values()]

    def times(self, call: str) -> list[float]:
        return [round(at, 3) for name, at in self.calls if name == call]

    async def receive(self, count: int, hidden: timedelta) -> list[ReceivedMessage]:
        await self._enter("receive")
        visible = [each for each in self.stored.values() if each.visible_at <= self.loop.time()]
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
        self.calls.append((call, self.loop.time()))
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
        each.visible_at = self.loop.time() + hidden.total_seconds()
        receipt = f"receipt {next(self.ids)}"
        each.message = replace(
            each.message,
            pop_receipt=receipt,
            next_visible_time=START + timedelta(seconds=each.visible_at),
        )
        return receipt


@pytest.fixture
def queue(loop: JumpingLoop) -> MemoryQueue:
    return MemoryQueue(loop)


@pytest.fixture
def poison(loop: JumpingLoop) -> MemoryQueue:
    return MemoryQueue(loop, is_there=False)


def _maker(trigger_of: Callable[..., Trigger], function: str) -> Callable[..., Function]:
    """Return a maker of functions with that trigger; its keywords are members of the trigger."""

    def make(call: Any = None, *, name: str = function, **members: Any) -> Function:
        trigger = trigger_of(**members)
        metadata = FunctionMetadata(
            name=name,
            script=Path(name, "__init__.py"),
            entry_point="main",
            trigger=trigger,
            returns_http=isinstance(trigger, HttpTrigger),
            disabled=False,
        )
        return Function(metadata=metadata, call=call, is_async=inspect.iscoroutinefunction(call))

    return make


@pytest.fixture
def queue_function() -> Callable[..., Function]:
    trigger_of = functools.partial(
        QueueTrigger, name="_message", queue="work", connection="S", binary=False
    )
    return _maker(trigger_of, "work")


@pytest.fixture
def http_function() -> Callable[..., Function]:
    return _maker(
        functools.partial(HttpTrigger, name="_req", route=None, methods=frozenset()), "web"
    )


@pytest.fixture
def timer_function() -> Callable[..., Function]:
    trigger_of = functools.partial(
        TimerTrigger, name="tick", run_on_startup=False, use_monitor=True
    )
    return _maker(trigger_of, "work")


class App:
    """A stand-in for the app's functions that records each call."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.calls: list[tuple[float, str, str]] = []
        self.seconds = self.stagger = 0.0
        self.fails = False
        self.running = 0
        self.most_running = 0

    async def invoke(self, _function, data, metadata):
        self.calls.append((round(self.loop.time(), 3), data.value, metadata["DequeueCount"].value))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(self.seconds + self.stagger * len(self.calls))
        self.running -= 1
        if self.fails:
            raise InvocationError

    @property
    def times(self):
        return [at for at, _, _ in self.calls]


@pytest.fixture
def app(loop):
    return App(loop)


@pytest.fixture
def a_listener(app, queue, poison, queue_function):
    """Return a listener, which does not run yet."""

    def make(name="work", **options):
        return QueueListener(
            function=queue_function(queue=name),
            source=queue,
            poison=poison if poison_queue_name(name) else None,
            options=QueueOptions(**{"base64": False} | options),
            invoke=app.invoke,
            uniform=lambda low, high: (low + high) / 2,
        )

    return make


@pytest.fixture
def listen(a_listener, run):
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

        run(scene())
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
