"""Declares what is stored as one value, which has the ports to its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shared.engine.ports.blobs import DeadLetterReader, DeadLetterStore, PayloadStore
from shared.engine.ports.documents import ResourceStore
from shared.engine.ports.queues import POISON_QUEUES, Queue, QueueWatch, Receiver, Sender
from shared.engine.ports.records import (
    AttemptLog,
    AttemptReader,
    CountReader,
    CountSink,
    MetricRetention,
)

if TYPE_CHECKING:
    from shared.engine.ports.measures import StoreMeasure, Unfinished
    from shared.subscriptions.subscription import SubscriptionKey


class Queues(Receiver, QueueWatch, Protocol):
    """Receives from queues, inspects them and makes them."""


class DeadLetters(DeadLetterStore, DeadLetterReader, Protocol):
    """Writes and reads blobs of dead letters."""


class Attempts(AttemptLog, AttemptReader, Protocol):
    """Writes and reads records of attempts."""


class StoredCounts(CountSink, CountReader, MetricRetention, Protocol):
    """Writes, reads and rolls up counts."""


class Hiding(NamedTuple):
    """For how long messages may hide on a queue that has a trigger."""

    waits: timedelta
    holds: timedelta  # of what is held, which may be much


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTraits:
    """
    What a store says about itself, where stores differ and what stands above them has to know.

    What waits longer than *hiding* is kept on the queue ``waiting``, and merged as the wake timer
    moves it back; ``None``: messages hide for ever. Then a store may merge them as it hands them
    out, and nothing else does.

    Without poison queues (*has_poison_queues*) nobody above the store ends a message of a queue
    with a trigger that fails again and again, or ends its process. The store has to: it counts how
    often it has handed one out, and in the end writes its record (`DeadLetterStore.write_poison`),
    fails the job of a replay's step, and deletes it.
    """

    message_size: int  # bytes that a message may have; a dead letter's headers may add 16 KiB
    most_in_hand: int  # the most messages of a queue that a process gets before one of them ends
    hiding: Hiding | None
    has_poison_queues: bool  # what fails again and again is moved there
    has_other_queues: bool  # its account has queues for users
    # Attempts and their counts are stored with what settles them. Elsewhere they can be lost: the
    # log has the attempts.
    keeps_attempts: bool

    def may_hide(self, wait: timedelta, *, is_held: bool) -> bool:
        """Tell whether a message that waits so long may do so on a queue that has a trigger."""
        hiding = self.hiding
        return hiding is None or wait <= (hiding.holds if is_held else hiding.waits)

    @property
    def queues(self) -> tuple[Queue, ...]:
        """The queues that there are."""
        absent: set[Queue] = set() if self.has_poison_queues else {*POISON_QUEUES}
        if self.hiding is None:
            absent.add(Queue.WAITING)
        return tuple(each for each in Queue if each not in absent)


class Store(Protocol):
    """All that a deployment stores; use cases get the ports that they need."""

    @property
    def traits(self) -> StoreTraits:
        """What it says about itself; it never changes."""

    @property
    def account(self) -> str:
        """The name of the storage account, which is a source of events."""

    @property
    def documents(self) -> ResourceStore:
        """Topics, subscriptions, health, jobs and state."""

    @property
    def sender(self) -> Sender:
        """What puts messages on the queues."""

    @property
    def queues(self) -> Queues:
        """The queues, for callers on threads."""

    @property
    def payloads(self) -> PayloadStore:
        """Events that don't fit into messages."""

    @property
    def dead_letters(self) -> DeadLetters:
        """Blobs of dead letters, and poison records."""

    @property
    def attempts(self) -> Attempts:
        """Attempts of the latest days."""

    @property
    def counts(self) -> StoredCounts:
        """Counts of all processes."""

    @property
    def catalogue_version(self) -> Callable[[], int] | None:
        """
        What returns a number that changes with topics and subscriptions.

        ``None``: a change by another process is seen as what was read expires.
        """

    @property
    def fault(self) -> str:
        """Why nothing can be stored now; empty: it can, or only a try tells."""

    def unfinished(self) -> Mapping[SubscriptionKey, Unfinished] | None:
        """
        Return exactly which events have not ended; names are in lower case.

        ``None``: it can't tell, and they are counted.

        Raises:
            StorageUnavailable: it did not answer.
        """

    def measures(self) -> Sequence[StoreMeasure]:
        """
        Return what it measures of itself; nothing, if another service does.

        Raises:
            StorageUnavailable: it did not answer.
        """
