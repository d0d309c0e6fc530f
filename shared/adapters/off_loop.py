"""Has threads do for delivering and publishing what would keep the event loop waiting."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import TypeVar

from shared.delivery.health.endpoint_health import Health
from shared.engine.ports import (
    HealthStore,
    OffLoop,
    OnLoop,
    Put,
    Queue,
    Receipt,
    Sender,
    StoredHealth,
)
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey

T = TypeVar("T")


class Threads:
    """Implements the port ``OffLoop`` with at most *most* threads, which begin when needed."""

    def __init__(self, most: int, name: str) -> None:
        self._pool = _PatientPool(most, thread_name_prefix=name)

    async def __call__(self, call: Callable[[], T]) -> T:
        """Do the port's work."""
        work = Future[T]()
        context = contextvars.copy_context()
        try:
            self._pool.submit(_work, work, partial(context.run, call))
        except RuntimeError as error:
            # The pool queues work before it starts a thread: what is refused must not run later.
            if work.cancel():
                raise StorageUnavailable from error
        return await asyncio.shield(asyncio.wrap_future(work))


class _PatientPool(ThreadPoolExecutor):
    """A pool whose work waits for one of its threads if the process can have no more."""

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise


def _work(work: Future[T], call: Callable[[], T]) -> None:
    if work.set_running_or_notify_cancel():
        try:
            work.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            work.set_exception(error)


class OffLoopHealth:
    """Implements the port ``EndpointHealth``; a topic's rows are read once for all who wait."""

    def __init__(self, store: HealthStore, run: OffLoop) -> None:
        self._store = store
        self._run = run
        self._readings: dict[str, asyncio.Task[StoredHealth | None]] = {}

    async def cached(self, key: SubscriptionKey) -> StoredHealth | None:
        topic = key.topic.lower()
        read = partial(self._store.cached, key)
        if self._store.is_cached(topic):
            return read()
        reading = self._readings.get(topic)
        if reading is None:
            reading = asyncio.create_task(self._run(read), context=contextvars.Context())
            self._readings[topic] = reading
            reading.add_done_callback(lambda _: self._readings.pop(topic))
            return await asyncio.shield(reading)
        if (known := self._store.known(topic)) is None:  # an expired row will do
            await asyncio.wait([reading])
            known = self._store.known(topic) or {}
        return known.get(key.subscription.lower())

    async def read(self, key: SubscriptionKey) -> StoredHealth | None:
        return await self._run(partial(self._store.read, key))

    async def write(self, key: SubscriptionKey, health: Health, etag: str | None) -> StoredHealth:
        return await self._run(partial(self._store.write, key, health, etag))


class OnLoopSender:
    """Implements the port ``BlockingSender`` over *on_loop*, which runs on the event loop."""

    def __init__(self, on_loop: Sender, run: OnLoop) -> None:
        self.on_loop = on_loop
        self._run = run

    def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        return self._run(self.on_loop.put(queue, text, visible_in))

    def put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta = timedelta()
    ) -> Sequence[Put]:
        return self._run(self.on_loop.put_all(queue, texts, visible_in))

    def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        return self._run(self.on_loop.take_back(queue, receipt))

    def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        return self._run(self.on_loop.replace(queue, receipt, text, visible_in))
