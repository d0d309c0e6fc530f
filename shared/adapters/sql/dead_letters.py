"""
Stores dead letters and poison records under the paths that blobs have, byte for byte.

The deployment's own account is the store itself; its containers exist once they are named.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote
from zlib import crc32

from shared.adapters.sql.database import (
    MOST_ROWS,
    Database,
    ReadTransaction,
    Row,
    WriteTransaction,
    micros,
    moment,
)
from shared.adapters.sql.tally import WaitingCounts
from shared.clock import Clock, Deadline
from shared.deadletter.blob_summary import BlobSummary
from shared.engine.ports import DeadLetters, KeyedCounts, Listing, StoredBlob
from shared.errors import StorageUnavailable
from shared.events.notices import WrittenBlob
from shared.settings import NAMES
from shared.subscriptions.subscription import DeadLetterDestination

POISON = "poison"
_JSON = "application/json"
_COLUMNS = "written, etag, size"
_BEYOND = "\U0010ffff"  # sorts after what a path has


class SqlDeadLetters:
    """
    DeadLetters of the account *account*. Nothing is overwritten.

    Those for other accounts are written and read by *others*; ``None``: the operator names none.
    *url* begins the address of each blob; empty: they have none.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        account: str,
        *,
        url: str = "",
        others: DeadLetters | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._account = account
        self._url = url.rstrip("/")
        self._others = others

    def write(
        self,
        destination: DeadLetterDestination,
        path: str,
        body: bytes,
        summary: BlobSummary | None = None,
        counts: KeyedCounts | None = None,
    ) -> WrittenBlob | None:
        if not self._is_own(destination):
            return self._elsewhere(destination).write(destination, path, body, summary)
        written = self._write(destination.container, path, body, summary, counts)
        return written._replace(is_counted=counts is not None)

    def _write(
        self,
        container: str,
        path: str,
        body: bytes,
        summary: BlobSummary | None = None,
        counts: KeyedCounts | None = None,
    ) -> WrittenBlob:
        tally = WaitingCounts(self._clock)
        if counts:
            tally.add(*counts)
        metadata = json.dumps(summary.to_metadata()) if summary else None
        described = micros(self._clock.now()), f'"0x{crc32(body):X}"', len(body)

        def write(writing: WriteTransaction) -> tuple[Row, bool]:
            is_new = writing.run(
                "INSERT INTO blobs (container, path, written, etag, size, summary, body)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (container, path) DO NOTHING",
                *(container, path, *described, metadata, body),
            )
            if is_new:
                writing.count(tally.counts)
                return described, True
            ((found, there),) = writing.rows(
                "SELECT body, written FROM blobs WHERE container = ? AND path = ?",
                *(container, path),
            )
            if found != body:
                raise StorageUnavailable(f"There is another blob '{container}/{path}'.")
            return (there, *described[1:]), False

        row, is_new = self._database.write(write)
        blob = self._described(container, path, row)
        if not is_new:
            return blob
        return blob._replace(request_id=str(uuid.uuid4()), client_request_id=str(uuid.uuid4()))

    def find(self, destination: DeadLetterDestination, path: str) -> WrittenBlob | None:
        if not self._is_own(destination):
            return self._elsewhere(destination).find(destination, path)
        found = self._rows(_COLUMNS, destination.container, path)
        return self._described(destination.container, path, found[0]) if found else None

    def list(self, destination: DeadLetterDestination, folder: str) -> Listing:
        if not self._is_own(destination):
            return self._elsewhere(destination).list(destination, folder)
        return self._database.read(lambda reading: _listing(reading, destination, folder))

    def read(self, destination: DeadLetterDestination, path: str, most: int) -> bytes | None:
        if not self._is_own(destination):
            return self._elsewhere(destination).read(destination, path, most)
        found = self._rows("substr(body, 1, CAST(? AS INTEGER))", destination.container, path, most)
        return bytes(found[0][0] or b"") if found else None  # of nothing, SQLite makes NULL

    def write_poison(self, path: str, body: bytes) -> None:
        self._write(POISON, path, body)

    def take_over(
        self, container: str, path: str, body: bytes, summary: BlobSummary | None, at: datetime
    ) -> None:
        """Write a blob of another home, which has written it *at* a moment."""
        self._write(container, path, body, summary)
        statement = "UPDATE blobs SET written = ? WHERE container = ? AND path = ?"
        self._database.write(lambda writing: writing.run(statement, micros(at), container, path))

    def delete_before(self, moment_: datetime, deadline: Deadline) -> int:
        """Delete the blobs written before a moment, until *deadline*; return how many."""
        deleted = 0

        def write(writing: WriteTransaction) -> int:
            return writing.run(
                "DELETE FROM blobs WHERE (container, path) IN (SELECT container, path FROM blobs"
                " WHERE written < ? ORDER BY written LIMIT ?)",
                *(micros(moment_), MOST_ROWS),
            )

        while not deadline.has_passed and (batch := self._database.write(write)):
            deleted += batch
        return deleted

    def _is_own(self, destination: DeadLetterDestination) -> bool:
        return destination.account in ("", self._account)

    def _elsewhere(self, destination: DeadLetterDestination) -> DeadLetters:
        if self._others is None:
            raise StorageUnavailable(
                f"{NAMES['deadletter_accounts']} does not name the storage account "
                f"'{destination.account}', or its connection string is not resolved. The server's "
                f"own is '{self._account}': {NAMES['own_account']} names it."
            )
        return self._others

    def _rows(self, columns: str, container: str, path: str, *values: int) -> Sequence[Row]:
        statement = f"SELECT {columns} FROM blobs WHERE container = ? AND path = ?"
        parameters = *values, container, path
        return self._database.read(lambda reading: reading.rows(statement, *parameters))

    def _described(self, container: str, path: str, row: Row) -> WrittenBlob:
        written, etag, size = row
        return WrittenBlob(
            container=container,
            path=path,
            url=f"{self._url}/{container}/{quote(path)}" if self._url else "",
            etag=etag,
            written_at=moment(written),
            size=size,
            content_type=_JSON,
        )


class ExportedBlob(NamedTuple):
    """A blob with what is stored beside its body."""

    container: str
    path: str
    body: bytes
    written: datetime
    metadata: Mapping[str, str]  # of its summary; empty: it has none


def blobs_after(
    reading: ReadTransaction, container: str, path: str, most: int
) -> Sequence[ExportedBlob]:
    """Return some blobs in order: those after a place."""
    return [
        ExportedBlob(container, path, bytes(body), moment(written), json.loads(summary or "{}"))
        for container, path, body, written, summary in reading.rows(
            "SELECT container, path, body, written, summary FROM blobs"
            " WHERE (container, path) > (?, ?) ORDER BY container, path LIMIT ?",
            *(container, path, most),
        )
    ]


def _listing(reading: ReadTransaction, destination: DeadLetterDestination, folder: str) -> Listing:
    """Step from one folder to the next, whatever is in each of them."""
    listing = Listing([], [])
    after = folder
    while rows := reading.rows(
        "SELECT path, written, size, summary FROM blobs"
        " WHERE container = ? AND path > ? AND path < ? ORDER BY path LIMIT ?",
        *(destination.container, after, folder + _BEYOND, MOST_ROWS),
    ):
        for path, written, size, summary in rows:
            name, is_below, _ = path.removeprefix(folder).partition("/")
            if is_below:
                listing.folders.append(name)
                after = f"{folder}{name}/{_BEYOND}"
                break
            known = BlobSummary.from_metadata(json.loads(summary)) if summary else None
            listing.blobs.append(StoredBlob(path, moment(written), size, known))
            after = path
    return listing
