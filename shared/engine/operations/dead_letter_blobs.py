"""Finds the dead-letter blobs of a subscription, newest first, and reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from shared.clock import optional_timestamp, timestamp
from shared.deadletter.paths import MAX_PATH
from shared.deadletter.reader import (
    MAX_BLOB,
    TOO_LARGE,
    Record,
    UnreadableRecord,
    elements,
    read_record,
)
from shared.deadletter.selection import LEVELS, Hour, Selection
from shared.engine.ports import DeadLetterReader, StoredBlob
from shared.errors import NotFound
from shared.subscriptions.subscription import DeadLetterDestination

MAX_PAGE = 1024 * 1024  # bytes of JSON that a page of records has, or one record
MAX_PAGE_RECORDS = 1000
MAX_LISTINGS = 300  # requests of a page: anybody with the account can make empty folders
_NUMBERS = (re.compile(r"[0-9]{4}"), *[re.compile(r"[0-9]{1,2}")] * (LEVELS - 1))
_BEYOND = 99  # no month, day or hour is later
_LAST = datetime.max.replace(tzinfo=UTC)
_NAME = r"[^/\\?#\x00-\x1f\x7f]+\.json"
_PATH = re.compile("/".join([*(each.pattern for each in _NUMBERS), _NAME]))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobFilter(Selection):
    """The wanted blobs of a page."""

    after: StoredBlob | None = None  # the last blob of the page before


class Page(NamedTuple):
    """Blobs of a page."""

    blobs: list[StoredBlob]
    # Looked at, if there may be more after it; of a folder, a path later than all of its blobs.
    last: StoredBlob | None


class RecordPage(NamedTuple):
    """Records of a blob, and the number of the next one, if there is one."""

    records: list[Record]
    following: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterBlobs:
    """The dead-letter blobs of one subscription."""

    reader: DeadLetterReader
    destination: DeadLetterDestination
    folder: str

    def page(self, wanted: BlobFilter, top: int) -> Page:
        """
        Look at up to *top* blobs, newest first, and return those that may be wanted.

        No blob is read: one without a summary may have any reason.

        Raises:
            NoContainer: there is no such container.
            StorageUnavailable: its account did not answer.
        """
        found: list[StoredBlob] = []
        last, looked_at = None, 0
        try:
            for blob in self._newest_first(wanted):
                if looked_at == top:
                    return Page(found, last)
                last, looked_at = blob, looked_at + 1
                if blob.summary is None or any(map(wanted.has_reason, blob.summary.reasons)):
                    found.append(blob)
        except _ListedEnough as enough:
            return Page(found, self._before(enough.hour))
        return Page(found, None)

    def records(self, path: str, first: int, top: int) -> RecordPage:
        """
        Return up to *top* dead letters in the blob at *path*, from the *first* on.

        Raises:
            NotFound: the subscription has no such blob.
            UnreadableBlob: it can't be read, or is not a list of dead letters.
            StorageUnavailable: its account did not answer.
        """
        body = None
        if self.has_path(path):
            body = self.reader.read(self.destination, path, MAX_BLOB + 1)
        if body is None:
            raise NotFound(f"The event subscription has no dead-letter blob '{path}'.")
        records: list[Record] = []
        size = 0
        for element in elements(body, first):
            size += len(element.text)
            if records and (len(records) == top or size > MAX_PAGE):
                return RecordPage(records, first + len(records))
            records.append(read_record(element))
        return RecordPage(records, None)

    def has_path(self, path: str) -> bool:
        """Tell whether the subscription may have a blob at *path*."""
        is_below = len(path) <= MAX_PATH and path.startswith(f"{self.folder}/")
        return is_below and bool(_PATH.fullmatch(path, len(self.folder) + 1))

    def _newest_first(self, wanted: BlobFilter) -> Iterator[StoredBlob]:
        after = wanted.after
        left = iter(range(MAX_LISTINGS))
        for hour, blobs in self._hours(f"{self.folder}/", (), wanted, left):
            ordered = sorted(blobs, key=_order, reverse=True)
            is_resumed = after is not None and hour == _hour_of(self.folder, after.path)
            for blob in ordered:
                if is_resumed and after and _order(blob) >= _order(after):
                    continue
                if blob.path.startswith(wanted.prefix):
                    yield blob

    def _hours(
        self, folder: str, parts: Hour, wanted: BlobFilter, left: Iterator[int]
    ) -> Iterator[tuple[Hour, list[StoredBlob]]]:
        """Yield each hour that may have wanted blobs, latest first, with its blobs."""
        if next(left, None) is None:
            raise _ListedEnough(parts)
        listing = self.reader.list(self.destination, folder)
        if len(parts) == LEVELS:
            name = re.compile(_NAME)
            at = len(folder)
            yield parts, [each for each in listing.blobs if name.fullmatch(each.path, at)]
            return
        is_number = _NUMBERS[len(parts)].fullmatch
        numbers = {int(each): each for each in listing.folders if is_number(each)}
        for number in sorted(numbers, reverse=True):
            below, hour = f"{folder}{numbers[number]}/", (*parts, number)
            if self._may_have(below, hour, wanted):
                yield from self._hours(below, hour, wanted, left)

    def _before(self, hour: Hour) -> StoredBlob:
        """Return what a page ends with so that the next one begins with *hour*."""
        year, *others = (*hour, *[_BEYOND] * (LEVELS - len(hour)))
        return StoredBlob(f"{self.folder}/{year:04}/{'/'.join(map(str, others))}/-.json", _LAST, 0)

    def _may_have(self, folder: str, hour: Hour, wanted: BlobFilter) -> bool:
        if wanted.after and hour > _hour_of(self.folder, wanted.after.path)[: len(hour)]:
            return False
        return wanted.may_have(folder, hour)


class _ListedEnough(Exception):
    """A page has taken enough requests before *hour*, or the first parts of one."""

    def __init__(self, hour: Hour) -> None:
        super().__init__()
        self.hour = hour


def _order(blob: StoredBlob) -> tuple[datetime, str]:
    return blob.written_at, blob.path


def _hour_of(folder: str, path: str) -> Hour:
    return tuple(map(int, path.removeprefix(f"{folder}/").split("/")[:LEVELS]))


def blob_document(blob: StoredBlob, *, with_event: bool = True) -> dict[str, Any]:
    """Return a blob as the API shows it in a list: what is not known without reading is null."""
    summary = blob.summary
    return {
        "blob": blob.path,
        "writtenAt": timestamp(blob.written_at),
        "size": blob.size,
        "topicId": (summary and summary.topic_id) or None,
        "events": summary.events if summary else None,
        "reasons": summary.reasons if summary else {},
        "firstEvent": (with_event and summary and summary.first) or None,
        "fault": TOO_LARGE if blob.size > MAX_BLOB else None,
    }


def record_document(record: Record) -> dict[str, Any]:
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
