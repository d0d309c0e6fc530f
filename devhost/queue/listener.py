"""
Serves one queue trigger: receive, invoke, then delete, release or move to the poison queue.

Source: azure-sdk-for-net, Microsoft.Azure.WebJobs.Extensions.Storage.Common
Listeners/QueueListener.cs and Queues/QueueProcessor.cs (2024-10).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from azure.functions.meta import Datum

from devhost.errors import HostError, InvocationError
from devhost.functions.loader import Function
from devhost.functions.metadata import QueueTrigger, is_queue_name
from devhost.host_json import QueueOptions
from devhost.queue import message as queue_message
from devhost.queue.lease import QueueLease
from devhost.queue.storage import ReceivedMessage, RestQueue
from devhost.storage.errors import (
    Outage,
    QueueGoneError,
    StaleReceiptError,
    StorageBusyError,
    StorageRefusedError,
)

Invoke = Callable[[Function, Datum, Mapping[str, Datum]], Awaitable[Datum | None]]

#: How long a received message is hidden; host.json cannot change it.
INVISIBILITY = timedelta(minutes=10)
_POISON = "-poison"
# Seconds between the tries of one step: those of the real host's client (measured, host 4.1037.0),
# which adds chance to each.
_STEP_RETRIES = (0.8, 1.6, 3.2, 6.4, 12.8)
_BACKOFF_STEP = timedelta(milliseconds=100)
_BACKOFF_JITTER = (0.8, 1.2)
_WAKE_SECONDS = 0.02  # from a poll to one for what was put meanwhile, which finds it all

_log = logging.getLogger(__name__)


def poison_queue_name(queue: str) -> str | None:
    """Return the poison queue of *queue*, or None: then failed messages stay hidden."""
    name = queue + _POISON
    return None if queue.endswith(_POISON) or not is_queue_name(name) else name


class Backoff:
    """
    The wait before an empty queue is polled again: about 100, 200, 300, 500, 900 ms, and so on.

    *uniform* returns a random number between its two arguments.
    Source: Storage.Common Timers/RandomizedExponentialBackoffStrategy.cs (2024-10).
    """

    def __init__(self, longest: timedelta, uniform: Callable[[float, float], float]) -> None:
        self._longest = longest
        self._uniform = uniform
        self._exponent = 0
        self._current = timedelta(0)

    def next_delay(self, *, after_work: bool) -> timedelta:
        """Return the wait after an empty poll; *after_work*: the poll before it found messages."""
        if after_work:
            self._current, self._exponent = _BACKOFF_STEP, 1
        elif self._current != self._longest:
            delay = _BACKOFF_STEP
            if self._exponent:
                jitter = self._uniform(*_BACKOFF_JITTER)
                delay += jitter * 2 ** (self._exponent - 1) * _BACKOFF_STEP
            self._exponent += 1
            self._current = min(delay, self._longest)
        return self._current


class QueueListener:
    """Serves one queue function until it is stopped."""

    def __init__(  # noqa: PLR0913 - named, and each of them differs in tests
        self,
        *,
        function: Function,
        source: RestQueue,
        poison: RestQueue | None,
        options: QueueOptions,
        invoke: Invoke,
        uniform: Callable[[float, float], float] = random.uniform,
        invisibility: timedelta = INVISIBILITY,
        longest_outage: float,
    ) -> None:
        trigger = function.metadata.trigger
        if not isinstance(trigger, QueueTrigger):
            raise TypeError
        self.queue = trigger.queue
        self._function = function
        self._trigger = trigger
        self._source, self._poison = source, poison
        self._options = options
        self._invoke = invoke
        self._invisibility = invisibility
        self._backoff = Backoff(options.max_polling_interval, uniform)
        self._running: set[asyncio.Task[None]] = set()
        self._has_room = asyncio.Event()
        self._wake = asyncio.Event()
        self._stopping = False
        self._outage = Outage(f"queue {trigger.queue}", longest_outage)
        self._exists: bool | None = None
        self._existed = False

    def notify(self) -> None:
        """Poll now, or 20 ms after the last poll: this host, or its app, has put a message."""
        self._wake.set()

    def stop(self) -> None:
        """Receive no more messages."""
        self._stopping = True
        self._wake.set()
        self._has_room.set()

    async def drain(self) -> None:
        """Wait until the received messages are finished, after `run` has ended."""
        if self._running:
            await asyncio.wait(self._running)

    async def run(self) -> None:
        """
        Listen until stopped.

        Raises:
            HostError: storage rejects the host's requests, or is out of reach for too long.
        """
        found = 0
        while not self._stopping:
            after_work, found = found, 0
            polled_at = asyncio.get_running_loop().time()
            was_told = self._wake.is_set()
            self._wake.clear()  # What has been put so far is received now.
            try:
                found = await self._receive()
                self._answered(exists=True)
            except QueueGoneError:
                self._answered(exists=False)
            except StorageBusyError as fault:
                self._outage.failed(fault)
            except StorageRefusedError as fault:
                text = f"queue {self.queue}: storage rejects the host: {fault}"
                raise HostError(text) from fault
            # What follows the messages that a put told of tells of itself.
            if not found or (was_told and found < self._options.batch_size):
                delay = self._backoff.next_delay(after_work=bool(after_work or found))
                await self._wait(delay, polled_at)

    async def _receive(self) -> int:
        received = await self._source.receive(self._options.batch_size, self._invisibility)
        for message in received:
            task = asyncio.create_task(self._process(message))
            self._running.add(task)
            task.add_done_callback(self._done)
        self._has_room.clear()
        if len(self._running) > self._options.new_batch_threshold and not self._stopping:
            await self._has_room.wait()
        return len(received)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if len(self._running) <= self._options.new_batch_threshold:
            self._has_room.set()
        if not task.cancelled() and (fault := task.exception()):
            _log.error("queue %s: %s", self.queue, fault, exc_info=fault)

    async def _wait(self, delay: timedelta, polled_at: float) -> None:
        if self._stopping:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay.total_seconds()):
                await self._wake.wait()
                early = polled_at + _WAKE_SECONDS - asyncio.get_running_loop().time()
                await asyncio.sleep(0 if self._stopping else early)

    async def _process(self, message: ReceivedMessage) -> None:
        lease = QueueLease(self._source, message, self._invisibility)
        try:
            await self._handle(message, lease)
        except StaleReceiptError as fault:
            # The function has deleted or hidden its message itself, which it may.
            _log.debug("queue %s, message %s: %s", self.queue, message.id, fault)
        except (QueueGoneError, StorageBusyError, StorageRefusedError) as fault:
            why = str(fault) or type(fault).__name__
            _log.warning(
                "queue %s, message %s will be received again: %s", self.queue, message.id, why
            )

    async def _handle(self, message: ReceivedMessage, lease: QueueLease) -> None:
        limit = self._options.max_dequeue_count
        if message.dequeue_count > limit and self._poison is not None:
            await self._move_to_poison(message, lease)
            return
        try:
            body = queue_message.body_datum(
                queue_message.decode(message.text, is_base64=self._options.base64),
                binary=self._trigger.binary,
            )
        except queue_message.UndecodableError:
            _log.error(
                "queue %s, message %s is not base64 (host.json: extensions.queues.messageEncoding)",
                self.queue,
                message.id,
            )
            await self._move_to_poison(message, lease)
            return
        try:
            with lease.renewed():
                await self._invoke(self._function, body, queue_message.metadata(message, body))
        except InvocationError:
            if message.dequeue_count >= limit:
                await self._move_to_poison(message, lease)
            # Without a poison queue it stays hidden, or it would fail in a tight loop.
            elif self._poison is not None:
                await self._retry(lambda: lease.release(self._options.visibility_timeout))
        else:
            await self._retry(lease.delete)

    async def _move_to_poison(self, message: ReceivedMessage, lease: QueueLease) -> None:
        if (poison := self._poison) is None:
            return
        name = poison_queue_name(self.queue)
        _log.warning("queue %s, message %s moves to %s", self.queue, message.id, name)
        await self._retry(lambda: poison.send(message.text))
        await self._retry(lease.delete)

    async def _retry(self, step: Callable[[], Awaitable[None]]) -> None:
        for delay in _STEP_RETRIES:
            try:
                return await step()
            except StorageBusyError:
                await asyncio.sleep(delay)
        return await step()

    def _answered(self, *, exists: bool) -> None:
        self._outage.end()
        # Many apps create a queue when they first need it: only a lost queue is worth a warning.
        level = logging.WARNING if self._existed else logging.DEBUG
        if exists != self._exists:
            text = "queue %s exists now" if exists else "queue %s does not exist, waiting for it"
            _log.log(level, text, self.queue)
        self._exists = exists
        self._existed = self._existed or exists
