"""Receives and inspects queue messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.errors import none_if_code, storage_errors
from shared.engine.ports import Backlog, Peeked, Queue, Receipt, Received

MAX_VISIBILITY_SECONDS = 7 * 24 * 3600
RECEIVE_AT_MOST = 32
# Azure says MessageNotFound where Azurite says PopReceiptMismatch.
GONE = ("MessageNotFound", "PopReceiptMismatch", "QueueNotFound", "QueueBeingDeleted")


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
