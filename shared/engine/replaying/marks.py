"""Records which dead letters of a blob were replayed to a subscription."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from shared.deadletter.reader import MAX_RECORDS
from shared.delivery.messages.run_length import positions_of, spans_of
from shared.engine.ports import ResourceStore, Table
from shared.engine.replaying.job import ReplayJob, ReplaySource
from shared.errors import UNREADABLE, UnreadableDocument
from shared.subscriptions.subscription import SubscriptionKey

_BLOBS = "blob"  # a partition of the table ``replays``, with a row for each blob and subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The records of a blob that were put for a subscription."""

    source: ReplaySource
    path: str
    to: SubscriptionKey
    records: frozenset[int] = frozenset()  # their numbers
    job: str = ""  # that put the last of them
    batch: int = 0  # number of the batch that put the last of them
    etag: str | None = None  # ``None``: it is not stored

    @property
    def name(self) -> str:
        named = self.source.account, self.source.container, self.path, *self.to.folded
        return hashlib.sha256("\n".join(named).encode()).hexdigest()[:40]

    def has_last(self, job: ReplayJob) -> bool:
        """Tell whether the latest batch of *job* is the last that was put."""
        return (self.job, self.batch) == (job.id, job.latest_batch)

    def replayed(self, job: ReplayJob) -> frozenset[int]:
        """Return the records that *job* leaves out; its batch under way is not among them."""
        if job.again:
            return frozenset()
        batch = job.under_way
        if batch and batch.path == self.path and self.has_last(job):
            return self.records.difference(batch.records)
        return self.records

    def stored(self, rows: ResourceStore) -> Mark:
        """
        Return the mark with what its row has.

        Raises:
            UnreadableDocument: the row can't be read.
        """
        row = rows.get(Table.REPLAYS, _BLOBS, self.name)
        if row is None:
            return self
        try:
            spans, (job, batch) = row.document["records"], row.document["last"]
            records = frozenset(positions_of(spans, MAX_RECORDS))
        except UNREADABLE as error:
            message = f"The replay record of '{self.path}' can't be read: {error!r}"
            raise UnreadableDocument(message) from None
        return replace(self, records=records, job=job, batch=batch, etag=row.etag)

    def with_latest(self, job: ReplayJob, records: Iterable[int], rows: ResourceStore) -> Mark:
        """
        Store that the latest batch of *job* has put *records*.

        Raises:
            Conflict: another process has written the row.
        """
        all_records = self.records.union(records)
        document = {
            "account": self.source.account,
            "container": self.source.container,
            "blob": self.path,
            "to": list(self.to),
            "records": spans_of(sorted(all_records)),
            "last": [job.id, job.latest_batch],
        }
        row = rows.put(Table.REPLAYS, _BLOBS, self.name, document, self.etag)
        return replace(self, records=all_records, job=job.id, batch=job.latest_batch, etag=row.etag)
