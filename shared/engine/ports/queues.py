"""Declares ports to queues: sending, also what is stored together, receiving, and their backlog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

from shared.delivery.messages.publication import Publication
from shared.errors import StorageUnavailable


class Receipt(NamedTuple):
    """Identifies a message that was put or received, until it is received again or replaced."""

    message_id: str
    version: str  # another one each time that it is received, hidden or replaced


PutResult = Receipt | StorageUnavailable  # what comes of a put


class Queue(StrEnum):
    """The app's queues; some stores have fewer. The first two have triggers."""

    DELIVERIES = "deliveries"
    RETRIES = "retries"
    WAITING = "waiting"
    DEADLETTERS = "deadletters"
    DELIVERIES_POISON = "deliveries-poison"
    RETRIES_POISON = "retries-poison"


POISON_QUEUES = (Queue.DELIVERIES_POISON, Queue.RETRIES_POISON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A received message, hidden from other receivers for the requested time."""

    text: str
    receipt: Receipt  # for deleting, hiding or replacing it
    count: int = 1  # how often it was received, this time included


class Sender(Protocol):
    """Puts messages on queues, on the app's event loop; they never expire."""

    async def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        """
        Store one message, hidden for *visible_in*.

        A store whose messages don't hide for ever (`StoreTraits.hiding`) may hide them for up to a
        second longer, and for a week at most.

        Raises:
            Unstorable: it is too large.
        """

    async def put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta = timedelta()
    ) -> Sequence[PutResult]:
        """
        Do as `put` for each text, side by side; return when every put has ended.

        Returns for each text its receipt, or why it may not be stored.
        """

    async def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        """
        Delete a message that was put; return ``False`` if it was received meanwhile, or if storage
        stored it without saying how to delete it.
        """

    async def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        """
        Replace a message that was put, and hide it for *visible_in*; return the new receipt.

        ``None`` where ``take_back`` returns ``False``; then it is unchanged.
        """


class Receiver(Protocol):
    """Receives messages from queues without a trigger."""

    def receive(self, queue: Queue, hidden_for: timedelta) -> Sequence[Received]:
        """Receive some visible messages; none if the queue is empty or missing."""

    def delete(self, queue: Queue, message: Received) -> None:
        """Delete it; no effect if another receiver has it by now."""

    def hide(self, queue: Queue, message: Received, visible_in: timedelta) -> None:
        """Hide it for *visible_in*; no effect if another receiver has it by now."""


class Peeked(NamedTuple):
    """A visible message, peeked and not received, and when it was stored."""

    text: str
    stored_at: datetime


class Backlog(NamedTuple):
    """The approximate number of messages, hidden ones included, and the first visible ones."""

    messages: int
    visible: Sequence[Peeked]


class QueueWatch(Protocol):
    """Inspects queues without receiving, and makes those that are missing."""

    def peek(self, queue: Queue) -> Backlog | None:
        """Return the backlog of a queue; ``None`` if the queue is missing."""

    def make(self, queue: Queue) -> None:
        """Make a queue; no effect if it exists, or can't be made yet since it is being deleted."""


class Commits(Protocol):
    """Stores publications, those together that arrive while others are being stored."""

    async def commit(self, publication: Publication) -> None:
        """
        Return once everything of *publication* is stored.

        Raises:
            StorageUnavailable: it may or may not be stored; other publications may be.
        """
