"""Declares ports to payloads, and to blobs of dead letters and poison records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from shared.clock import Deadline
from shared.deadletter.blob_summary import BlobSummary
from shared.engine.ports.records import KeyedCounts
from shared.errors import NotFound
from shared.events.notices import WrittenBlob
from shared.subscriptions.subscription import DeadLetterDestination


class PayloadStore(Protocol):
    """Stores events that don't fit into messages, those of a commit as the lines of a payload."""

    def write(self, publish_id: str, expires: datetime, texts: Sequence[str]) -> str:
        """
        Store *texts*, one a line, to be kept at least until *expires*; return the payload's name.
        """

    def read(self, name: str) -> Sequence[str] | None:
        """Return the lines of a payload; ``None`` if there is no such payload."""

    def delete_expired(self, now: datetime, deadline: Deadline) -> int:
        """Delete expired payloads until *deadline*; return how many."""


class DeadLetterStore(Protocol):
    """Writes to dead-letter containers, and to the container of poison records."""

    def write(
        self,
        destination: DeadLetterDestination,
        path: str,
        body: bytes,
        summary: BlobSummary | None = None,
        counts: KeyedCounts | None = None,
    ) -> WrittenBlob | None:
        """
        Store a blob of JSON, with a summary as its metadata, and return what was written.

        Return ``None`` if the account has no such container. A store with transactions adds
        *counts* in that of a new blob, and says so in what it returns.

        Raises:
            StorageUnreachable: the account did not answer; it may or may not be stored.
            StorageUnavailable: it is not stored, for any other reason.
        """

    def find(self, destination: DeadLetterDestination, path: str) -> WrittenBlob | None:
        """
        Return what is known of a blob; ``None`` if there is none.

        Raises:
            StorageUnreachable, StorageUnavailable: as `write`.
        """

    def write_poison(self, path: str, body: bytes) -> None:
        """Store a record of a message that can't be handled in the app's container ``poison``."""


class StoredBlob(NamedTuple):
    """A blob in a dead-letter container."""

    path: str
    written_at: datetime
    size: int  # bytes
    summary: BlobSummary | None = None  # ``None``: of another writer, or an earlier version


class Listing(NamedTuple):
    """The names of the folders directly below a folder, and the blobs there; in no order."""

    folders: list[str]
    blobs: list[StoredBlob]


class NoContainer(NotFound):
    """The storage account has no such container."""

    def __init__(self, of: DeadLetterDestination) -> None:
        account = f" in the storage account '{of.account}'" if of.account else ""
        super().__init__(
            f"There is no container '{of.container}'{account}. Create it: until then its dead "
            "letters are dropped."
        )


class DeadLetterReader(Protocol):
    """Reads dead-letter containers."""

    def list(self, destination: DeadLetterDestination, folder: str) -> Listing:
        """
        Return what is in *folder*, which ends with a slash.

        Raises:
            NoContainer: the account has no such container.
            StorageUnavailable: the account did not answer, or the operator does not name it.
        """

    def read(self, destination: DeadLetterDestination, path: str, most: int) -> bytes | None:
        """
        Return a blob's first *most* bytes; ``None`` if there is no such blob, or no container.

        Raises:
            UnreadableBlob: the account refuses to read it, or it is compressed.
            StorageUnavailable: as `list`.
        """
