"""Queues: what is put on them, taken off them, and how long they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, NewType, Protocol

# The adapter's own: good for its message until somebody receives that.
Receipt = NewType("Receipt", object)


class Queue(StrEnum):
    """Our queues. Only the first two have a trigger, and so a poison queue of the host."""

    DELIVERIES = "deliveries"
    RETRIES = "retries"
    WAITING = "waiting"
    DEADLETTERS = "deadletters"
    DELIVERIES_POISON = "deliveries-poison"
    RETRIES_POISON = "retries-poison"


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message taken from a queue and hidden from others for as long as was asked."""

    text: str
    handle: object  # the adapter's own: what deleting or hiding it again needs


class Sender(Protocol):
    """Puts messages on queues. They never expire."""

    def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        """
        Store one message, hidden for *visible_in*, which is rounded up to whole seconds.

        Raises:
            StorageUnavailable: it may or may not be stored.
        """

    def put_all(self, queue: Queue, texts: Sequence[str]) -> None:
        """
        Store all messages, several at a time, visible at once; return when every one is stored.

        Raises:
            StorageUnavailable: some may be stored.
        """

    def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        """
        Delete what was put; return ``False`` if somebody has received it meanwhile.

        Raises:
            StorageUnavailable: it may or may not be deleted.
        """

    def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        """
        Change what was put, and hide it for *visible_in* from now; return its new receipt.

        ``None`` if somebody has received it meanwhile: then it stays as it was.

        Raises:
            StorageUnavailable: it may or may not be changed.
        """


class Receiver(Protocol):
    """Takes messages from queues without a trigger."""

    def receive(self, queue: Queue, hidden_for: timedelta) -> Sequence[Received]:
        """Take up to 32 visible messages; none when there are none, or no queue."""

    def delete(self, queue: Queue, message: Received) -> None:
        """Delete it; nothing happens if somebody else has received it meanwhile."""

    def hide(self, queue: Queue, message: Received, visible_in: timedelta) -> None:
        """Let it be received again after *visible_in*; nothing happens if somebody else has it."""


class Seen(NamedTuple):
    """A visible message, not taken from its queue, and when it was put there."""

    text: str
    stored_at: datetime


class Backlog(NamedTuple):
    """About how many messages a queue has, hidden ones included, and up to 32 visible ones."""

    messages: int
    visible: Sequence[Seen]


class QueueWatch(Protocol):
    """Looks at queues and leaves them as they are."""

    def look(self, queue: Queue) -> Backlog:
        """
        Return what there is to see; nothing if there is no queue.

        Raises:
            StorageUnavailable: storage did not answer.
        """
