"""Puts queue messages on the event loop; texts are stored as they are: they must be legal XML."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from http import HTTPStatus

from azure.core.exceptions import HttpResponseError

from shared.adapters.storage.clients import StorageClients
from shared.adapters.storage.errors import none_if_code, storage_errors
from shared.adapters.storage.message_put import NO_RECEIPT, MessagePut, Send
from shared.adapters.storage.queues import GONE, handle_of, whole_seconds
from shared.engine.ports import OffLoop, Put, Queue, Receipt
from shared.errors import StorageUnavailable

PUTS = 64  # at a time on each queue, in one process
SIDE_BY_SIDE = 16  # of them for one call, so that a few texts don't wait for many others
_NEVER = -1


class StorageSender:
    """
    Sender on Azure queues. A queue that is missing is made by a put.

    *send* sends one request, whose address it does not judge; it never raises. The SDK's clients,
    which block, are used *off_loop*. *visible* is told the queue of each message that was put and
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
    ) -> Sequence[Put]:
        left = iter(enumerate(texts))
        puts: dict[int, Receipt | Exception] = {}

        async def put_what_is_left() -> None:
            for place, text in left:
                try:
                    puts[place] = await self.put(queue, text, visible_in)
                except Exception as fault:  # noqa: BLE001 - raised below; the other puts go on
                    puts[place] = fault

        await asyncio.gather(*(put_what_is_left() for _ in texts[:SIDE_BY_SIDE]))
        ended: list[Put] = []
        for place in range(len(texts)):
            put = puts[place]
            if isinstance(put, Exception) and not isinstance(put, StorageUnavailable):
                raise put
            ended.append(put)
        return ended

    async def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        if receipt == NO_RECEIPT:
            return False
        identity, pop_receipt = handle_of(receipt)

        def delete() -> bool:
            self._account.queue(queue).delete_message(identity, pop_receipt)
            return True

        with storage_errors():
            return await self._off_loop(lambda: none_if_code(delete, *GONE)) or False

    async def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        if receipt == NO_RECEIPT:
            return None
        identity, pop_receipt = handle_of(receipt)

        def update() -> Receipt:
            updated = self._account.queue(queue).update_message(
                identity, pop_receipt, content=text, visibility_timeout=whole_seconds(visible_in)
            )
            return Receipt((identity, updated.pop_receipt))

        with storage_errors():
            return await self._off_loop(lambda: none_if_code(update, *GONE))

    def _create(self, queue: Queue) -> None:
        none_if_code(self._account.queue(queue).create_queue, "QueueAlreadyExists")
