"""Receives, inspects and puts queue messages; texts are stored as they are: legal XML."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from http import HTTPStatus

from azure.core.exceptions import HttpResponseError

from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.errors import none_if_code, storage_errors
from shared.adapters.azure_storage.message_put import NO_RECEIPT, MessagePut, Send
from shared.engine.ports import Backlog, OffLoop, Peeked, PutResult, Queue, Receipt, Received
from shared.errors import StorageUnavailable

MAX_VISIBILITY_SECONDS = 7 * 24 * 3600
RECEIVE_AT_MOST = 32
# Azure says MessageNotFound where Azurite says PopReceiptMismatch.
GONE = ("MessageNotFound", "PopReceiptMismatch", "QueueNotFound", "QueueBeingDeleted")

PUTS = 64  # at a time on each queue, in one process
SIDE_BY_SIDE = 16  # of them for one call, so that a few texts don't wait for many others
_NEVER = -1


class StorageQueues:
    """Receiver and QueueWatch on Azure queues."""

    def __init__(self, account: StorageClients) -> None:
        self._account = account

    def receive(self, queue: Queue, hidden_for: timedelta) -> Sequence[Received]:
        pages = (
            self._account.queue(queue)
            .receive_messages(
                messages_per_page=RECEIVE_AT_MOST,
                visibility_timeout=max(1, whole_seconds(hidden_for)),
            )
            .by_page()
        )
        with storage_errors():
            messages = none_if_code(
                lambda: list(next(pages, ())), "QueueNotFound", "QueueBeingDeleted"
            )
        return [
            Received(
                text=message.content or "",
                receipt=Receipt(message.id, message.pop_receipt or ""),
                count=message.dequeue_count or 1,
            )
            for message in messages or ()
        ]

    def delete(self, queue: Queue, message: Received) -> None:
        client = self._account.queue(queue)
        with storage_errors():
            none_if_code(lambda: client.delete_message(*message.receipt), *GONE)

    def hide(self, queue: Queue, message: Received, visible_in: timedelta) -> None:
        client = self._account.queue(queue)
        seconds = whole_seconds(visible_in)
        with storage_errors():
            none_if_code(
                lambda: client.update_message(*message.receipt, visibility_timeout=seconds), *GONE
            )

    def peek(self, queue: Queue) -> Backlog | None:
        client = self._account.queue(queue)

        def peek() -> Backlog:
            count = client.get_queue_properties().approximate_message_count or 0
            messages = client.peek_messages(RECEIVE_AT_MOST)
            peeked = [
                Peeked(each.content or "", each.inserted_on)
                for each in messages
                if each.inserted_on
            ]
            return Backlog(count, peeked)

        with storage_errors():
            return none_if_code(peek, "QueueNotFound", "QueueBeingDeleted")

    def make(self, queue: Queue) -> None:
        create = self._account.queue(queue).create_queue
        with storage_errors():
            none_if_code(create, "QueueAlreadyExists", "QueueBeingDeleted")


def whole_seconds(wait: timedelta) -> int:
    """Round *wait* up to whole seconds: between none and the seven days a queue can hide."""
    return max(0, min(math.ceil(wait.total_seconds()), MAX_VISIBILITY_SECONDS))


class StorageSender:
    """
    Sender on Azure queues. A queue that is missing is made by a put.

    *send* sends one request, whose address it does not judge; it never raises. The SDK's clients,
    which block, are used *off_loop*. *visible* gets the queue of each message that was put and
    is visible.
    """

    def __init__(
        self,
        account: StorageClients,
        send: Send,
        off_loop: OffLoop,
        visible: Callable[[Queue], object] = lambda _: None,
    ) -> None:
        self._account = account
        self._visible = visible
        self._off_loop = off_loop
        self._message_put = MessagePut(account, send, off_loop)
        self._free = {queue: asyncio.Semaphore(PUTS) for queue in Queue}

    async def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        hidden = whole_seconds(visible_in)
        receipt = await self._put(queue, text, hidden)
        if not hidden:
            self._visible(queue)
        return receipt

    async def _put(self, queue: Queue, text: str, hidden: int) -> Receipt:
        put = partial(self._message_put.put, queue, text, hidden=hidden, expires=_NEVER)
        async with self._free[queue]:
            with storage_errors():
                try:
                    return await put()
                except HttpResponseError as error:
                    # The code of an answer that was cut off is not known; no other put is a 404.
                    if error.status_code != HTTPStatus.NOT_FOUND:
                        raise
                await self._off_loop(partial(self._create, queue))
                return await put()

    async def put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta = timedelta()
    ) -> Sequence[PutResult]:
        free = asyncio.Semaphore(SIDE_BY_SIDE)

        async def put(text: str) -> Receipt:
            async with free:
                return await self.put(queue, text, visible_in)

        puts: list[PutResult] = []
        for ended in await asyncio.gather(*map(put, texts), return_exceptions=True):
            if isinstance(ended, BaseException) and not isinstance(ended, StorageUnavailable):
                raise ended
            puts.append(ended)
        return puts

    async def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        if receipt == NO_RECEIPT:
            return False

        def delete() -> bool:
            self._account.queue(queue).delete_message(*receipt)
            return True

        with storage_errors():
            return await self._off_loop(lambda: none_if_code(delete, *GONE)) or False

    async def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        if receipt == NO_RECEIPT:
            return None

        def update() -> Receipt:
            updated = self._account.queue(queue).update_message(
                *receipt, content=text, visibility_timeout=whole_seconds(visible_in)
            )
            return receipt._replace(pop_receipt=updated.pop_receipt or "")

        with storage_errors():
            return await self._off_loop(lambda: none_if_code(update, *GONE))

    def _create(self, queue: Queue) -> None:
        none_if_code(self._account.queue(queue).create_queue, "QueueAlreadyExists")
