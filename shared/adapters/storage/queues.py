"""Receives queue messages, and inspects queues."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

from shared.adapters.storage.clients import StorageClients
from shared.adapters.storage.errors import none_if_code, storage_errors
from shared.engine.ports import Backlog, Peeked, Queue, Received

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
                handle=(message.id, message.pop_receipt),
                count=message.dequeue_count or 1,
            )
            for message in messages or ()
        ]

    def delete(self, queue: Queue, message: Received) -> None:
        client = self._account.queue(queue)
        identity, receipt = handle_of(message.handle)
        with storage_errors():
            none_if_code(lambda: client.delete_message(identity, receipt), *GONE)

    def hide(self, queue: Queue, message: Received, visible_in: timedelta) -> None:
        client = self._account.queue(queue)
        identity, receipt = handle_of(message.handle)
        seconds = whole_seconds(visible_in)
        with storage_errors():
            none_if_code(
                lambda: client.update_message(identity, receipt, visibility_timeout=seconds), *GONE
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


def whole_seconds(wait: timedelta) -> int:
    """Round *wait* up to whole seconds: between none and the seven days a queue can hide."""
    return max(0, min(math.ceil(wait.total_seconds()), MAX_VISIBILITY_SECONDS))


def handle_of(handle: object) -> tuple[str, str]:
    """
    Return the id of a message and its receipt.

    Raises:
        ValueError: this adapter made no such *handle*.
    """
    match handle:
        case (str(identity), str(receipt)):
            return identity, receipt
        case other:
            raise ValueError(f"{other!r} is not a handle of this adapter")
