"""Finds the dead-letter blobs of a subscription, newest first, and reads them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from shared.clock import optional_timestamp, timestamp
from shared.deadletter.reader import (
    MAX_BLOB,
    TOO_LARGE,
    DeadLetter,
    Records,
    UnreadableBlob,
    UnreadableRecord,
    read_blob,
)
from shared.deadletter.selection import LEVELS, Hour, Selection
from shared.engine.ports import DeadLetterReader, StoredBlob
from shared.errors import NotFound
from shared.subscriptions.subscription import DeadLetterDestination

MAX_PAGE = 32 * 1024 * 1024  # bytes that a page reads, and one blob
_NUMBER = re.compile(r"[0-9]{1,4}", re.ASCII)
_TIMES = r"[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}/[0-9]{1,2}"
_NAME = r"[^/\\?#]+\.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobFilter(Selection):
    """The wanted blobs of a page; *after* is the last blob of the page before."""

    after: StoredBlob | None = None


class ReadBlob(NamedTuple):
    """A blob and its records; *fault* tells why it has none that can be read."""

    blob: StoredBlob
    records: Records
    fault: str | None


class Page(NamedTuple):
    """Blobs, and the last one that was looked at if there may be more after it."""

    blobs: list[ReadBlob]
    last: StoredBlob | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterBlobs:
    """The dead-letter blobs in the *folder* of one subscription."""

    reader: DeadLetterReader
    destination: DeadLetterDestination
    folder: str

    def page(self, wanted: BlobFilter, top: int) -> Page:
        """
        Look at up to *top* blobs, newest first, and return those that are wanted.

        Raises:
            NoContainer: there is no such container.
            StorageUnavailable: its account did not answer.
        """
        found: list[ReadBlob] = []
        last, looked_at, size = None, 0, 0
        for blob in self._newest_first(wanted):
            if looked_at == top or (looked_at and size + blob.size > MAX_PAGE):
                return Page(found, last)
            last, looked_at, size = blob, looked_at + 1, size + blob.size
            if (read := self._read(blob)) is None:
                continue  # It was deleted meanwhile.
            if read.fault or wanted.reason is None or any(map(wanted.has_reason, _letters(read))):
                found.append(read)
        return Page(found, None)

    def records(self, path: str) -> Records:
        """
        Return the dead letters in the blob at *path*.

        Raises:
            NotFound: the subscription has no such blob.
            UnreadableBlob: it can't be read, or is not a list of dead letters.
            StorageUnavailable: its account did not answer.
        """
        is_of_subscription = re.fullmatch(f"{re.escape(self.folder)}/{_TIMES}/{_NAME}", path)
        body = self._body(path) if is_of_subscription else None
        if body is None:
            raise NotFound(f"The event subscription has no dead-letter blob '{path}'.")
        return read_blob(body)

    def _read(self, blob: StoredBlob) -> ReadBlob | None:
        if blob.size > MAX_BLOB:
            return ReadBlob(blob, (), TOO_LARGE)
        try:
            body = self._body(blob.path)
            return None if body is None else ReadBlob(blob, read_blob(body), None)
        except UnreadableBlob as error:
            return ReadBlob(blob, (), str(error))

    def _body(self, path: str) -> bytes | None:
        return self.reader.read(self.destination, path, MAX_BLOB + 1)

    def _newest_first(self, wanted: BlobFilter) -> Iterator[StoredBlob]:
        after = wanted.after
        for hour, blobs in self._hours(f"{self.folder}/", (), wanted):
            ordered = sorted(blobs, key=_order, reverse=True)
            is_resumed = after is not None and hour == _hour_of(self.folder, after.path)
            for blob in ordered:
                if is_resumed and after and _order(blob) >= _order(after):
                    continue
                if blob.path.startswith(wanted.prefix):
                    yield blob

    def _hours(
        self, folder: str, parts: Hour, wanted: BlobFilter
    ) -> Iterator[tuple[Hour, list[StoredBlob]]]:
        """Yield each hour that may have wanted blobs, latest first, with its blobs."""
        listing = self.reader.list(self.destination, folder)
        if len(parts) == LEVELS:
            name = re.compile(_NAME)
            at = len(folder)
            yield parts, [each for each in listing.blobs if name.fullmatch(each.path, at)]
            return
        numbers = {int(each): each for each in listing.folders if _NUMBER.fullmatch(each)}
        for number in sorted(numbers, reverse=True):
            below, hour = f"{folder}{numbers[number]}/", (*parts, number)
            if self._may_have(below, hour, wanted):
                yield from self._hours(below, hour, wanted)

    def _may_have(self, folder: str, hour: Hour, wanted: BlobFilter) -> bool:
        if wanted.after and hour > _hour_of(self.folder, wanted.after.path)[: len(hour)]:
            return False
        return wanted.may_have(folder, hour)


def _letters(read: ReadBlob) -> list[DeadLetter]:
    return [each for each in read.records if isinstance(each, DeadLetter)]


def _order(blob: StoredBlob) -> tuple[datetime, str]:
    return blob.written_at, blob.path


def _hour_of(folder: str, path: str) -> Hour:
    return tuple(map(int, path.removeprefix(f"{folder}/").split("/")[:LEVELS]))


def blob_document(read: ReadBlob) -> dict[str, Any]:
    """Return a blob as the API shows it in a list."""
    letters = _letters(read)
    return {
        "blob": read.blob.path,
        "writtenAt": timestamp(read.blob.written_at),
        "size": read.blob.size,
        "events": len(letters),
        "unreadable": len(read.records) - len(letters),
        "reasons": dict(Counter(each.reason for each in letters)),
        "fault": read.fault,
    }


def record_document(record: DeadLetter | UnreadableRecord) -> dict[str, Any]:
    """Return a dead letter as the API shows it."""
    if isinstance(record, UnreadableRecord):
        return {"fault": record.fault}
    return {
        "form": record.form,
        "reason": record.reason,
        "attempts": record.attempts,
        "lastOutcome": record.last_outcome,
        "lastStatus": record.last_status,
        "publishedAt": optional_timestamp(record.published_at),
        "lastAttemptAt": optional_timestamp(record.last_attempt_at),
        "headers": record.headers,
        "event": record.event,
        "fault": None,
    }
