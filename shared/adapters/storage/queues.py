"""Puts and receives queue messages; texts are stored as they are, so they must be legal XML."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import cast

from shared.adapters.storage.account import StorageAccount
from shared.adapters.storage.errors import create_if_missing, none_if_code, storage_errors
from shared.adapters.storage.message_put import NO_RECEIPT, MessagePut, Send
from shared.engine.ports import Backlog, Peeked, Queue, Receipt, Received
from shared.errors import StorageUnavailable

MAX_VISIBILITY_SECONDS = 7 * 24 * 3600
RECEIVE_AT_MOST = 32
_NEVER = -1
_THREADS = 16
_LANES = 9  # threads that put the texts of one call
# Azure says MessageNotFound where Azurite says PopReceiptMismatch.
_GONE = ("MessageNotFound", "PopReceiptMismatch", "QueueNotFound", "QueueBeingDeleted")


class StorageQueues:
    """
    Sender, Receiver and QueueWatch on Azure queues. A queue that is missing is made by a put.

    *send* sends one request, whose address it does not judge; it never raises.
    """

    def __init__(self, account: StorageAccount, send: Send) -> None:
        self._account = account
        self._message_put = MessagePut(account, send)
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        hidden = whole_seconds(visible_in)

        def send() -> Receipt:
            return self._message_put.put(queue, text, hidden=hidden, expires=_NEVER)

        def create() -> None:
            self._account.queue(queue).create_queue()

        with storage_errors():
            return create_if_missing(send, create, "QueueNotFound")

    def put_all(self, queue: Queue, texts: Sequence[str]) -> Mapping[int, StorageUnavailable]:
        left, lock, ended = iter(enumerate(texts)), threading.Lock(), threading.Semaphore(0)
        results: dict[int, Exception | None] = {}

        def put_what_is_left() -> None:
            while True:
                with lock:
                    number, text = next(left, (0, None))
                if text is None:
                    return
                results[number] = self._fault_of_put(queue, text)
                ended.release()

        # This thread puts as well, so that a few texts don't wait for many others to be put.
        with suppress(RuntimeError):  # No more threads: what was submitted may run all the same.
            for _ in range(min(len(texts), _LANES) - 1):
                self._threads().submit(put_what_is_left)
        put_what_is_left()
        for _ in texts:
            ended.acquire()
        faults = {number: fault for number, fault in sorted(results.items()) if fault}
        for fault in faults.values():
            if not isinstance(fault, StorageUnavailable):
                raise fault
        return cast("dict[int, StorageUnavailable]", faults)

    def _fault_of_put(self, queue: Queue, text: str) -> Exception | None:
        try:
            self.put(queue, text)
        except Exception as fault:  # noqa: BLE001 - raised by the caller, whose other puts go on
            return fault
        return None

    def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        if receipt == NO_RECEIPT:
            return False
        client = self._account.queue(queue)
        identity, pop_receipt = _handle(receipt)

        def delete() -> bool:
            client.delete_message(identity, pop_receipt)
            return True

        with storage_errors():
            return none_if_code(delete, *_GONE) or False

    def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        if receipt == NO_RECEIPT:
            return None
        client = self._account.queue(queue)
        identity, pop_receipt = _handle(receipt)
        seconds = whole_seconds(visible_in)

        def update() -> Receipt:
            updated = client.update_message(
                identity, pop_receipt, content=text, visibility_timeout=seconds
            )
            return Receipt((identity, updated.pop_receipt))

        with storage_errors():
            return none_if_code(update, *_GONE)

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
                handle=(message.id, message.pop_receipt),
                count=message.dequeue_count or 1,
            )
            for message in messages or ()
        ]

    def delete(self, queue: Queue, message: Received) -> None:
        client = self._account.queue(queue)
        identity, receipt = _handle(message.handle)
        with storage_errors():
            none_if_code(lambda: client.delete_message(identity, receipt), *_GONE)

    def hide(self, queue: Queue, message: Received, visible_in: timedelta) -> None:
        client = self._account.queue(queue)
        identity, receipt = _handle(message.handle)
        seconds = whole_seconds(visible_in)
        with storage_errors():
            none_if_code(
                lambda: client.update_message(identity, receipt, visibility_timeout=seconds), *_GONE
            )

    def peek(self, queue: Queue) -> Backlog:
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
            backlog = none_if_code(peek, "QueueNotFound", "QueueBeingDeleted")
        return backlog or Backlog(0, [])

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="queue-put")
            return self._pool


def whole_seconds(wait: timedelta) -> int:
    """Round *wait* up to whole seconds: between none and the seven days a queue can hide."""
    return max(0, min(math.ceil(wait.total_seconds()), MAX_VISIBILITY_SECONDS))


def _handle(handle: object) -> tuple[str, str]:
    match handle:
        case (str(identity), str(receipt)):
            return identity, receipt
        case other:
            raise ValueError(f"{other!r} is not a handle of this adapter")
