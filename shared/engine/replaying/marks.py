"""Records which dead letters of a blob were replayed to a subscription."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from shared.delivery.messages.run_length import positions_of, spans_of
from shared.engine.ports import ResourceStore, Table
from shared.engine.replaying.job import ReplayJob, ReplaySource
from shared.engine.replaying.job_document import MAX_RECORDS
from shared.errors import UNREADABLE, UnreadableDocument
from shared.subscriptions.subscription import SubscriptionKey

_BLOBS = "blob"  # a partition of the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """
    The *records* of the blob *path* that were put for the subscription *to*, by their numbers.

    The last of them were put by the batch *number* of *job*. *etag* ``None``: it is not stored.
    """

    source: ReplaySource
    path: str
    to: SubscriptionKey
    records: frozenset[int] = frozenset()
    job: str = ""
    number: int = 0
    etag: str | None = None

    @property
    def name(self) -> str:
        """The name of its row."""
        named = self.source.account, self.source.container, self.path, *self.to.folded
        return hashlib.sha256("\n".join(named).encode()).hexdigest()[:40]

    def has_last(self, job: ReplayJob) -> bool:
        """Tell whether the latest batch of *job* is the last that was put."""
        return (self.job, self.number) == (job.id, job.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The marks in the table ``replays``: a row for each blob and subscription."""

    rows: ResourceStore

    def read(self, source: ReplaySource, path: str, to: SubscriptionKey) -> Mark:
        """
        Return what was replayed of a blob.

        Raises:
            UnreadableDocument: its row can't be read.
        """
        mark = Mark(source=source, path=path, to=to)
        row = self.rows.get(Table.REPLAYS, _BLOBS, mark.name)
        if row is None:
            return mark
        try:
            spans, (job, number) = row.document["records"], row.document["last"]
            records = frozenset(positions_of(spans, MAX_RECORDS))
        except UNREADABLE as error:
            message = f"The replay record of '{path}' can't be read: {error!r}"
            raise UnreadableDocument(message) from None
        return replace(mark, records=records, job=job, number=number, etag=row.etag)

    def add(self, mark: Mark, job: ReplayJob, records: Iterable[int]) -> Mark:
        """
        Store that the latest batch of *job* was put; return the mark with its *records*.

        Raises:
            Conflict: another process has written it.
            StorageUnavailable: it may or may not be stored.
        """
        all_records = mark.records.union(records)
        document = {
            "account": mark.source.account,
            "container": mark.source.container,
            "blob": mark.path,
            "to": list(mark.to),
            "records": spans_of(sorted(all_records)),
            "last": [job.id, job.batches],
        }
        row = self.rows.put(Table.REPLAYS, _BLOBS, mark.name, document, mark.etag)
        return replace(mark, records=all_records, job=job.id, number=job.batches, etag=row.etag)
