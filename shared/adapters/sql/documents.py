"""Stores ARM documents, a row each, as JSON in ASCII."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from shared.adapters.sql.database import (
    Catalogue,
    Database,
    ReadTransaction,
    Row,
    Write,
    WriteOptions,
    WriteTransaction,
    plain,
)
from shared.engine.ports import PROCESSES, STATE, Document, Resource, Table
from shared.errors import Conflict, InvalidDocument

T = TypeVar("T")
_DOCUMENT_CHARACTERS = 500_000  # as on Azure Storage: documents can be moved there
_KEY = re.compile(r"[^/\\#?\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,500}")  # likewise
_VERSION_DIGITS = 15  # hexadecimal: what a signed 64-bit number has
_COLUMNS = "name, etag, document"
_INSERT = (
    "INSERT INTO documents (etag, document, pause, kind, partition, name)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, partition, name) DO NOTHING"
)
_UPDATE = (
    "UPDATE documents SET etag = ?, document = ?, pause = ?"
    " WHERE kind = ? AND partition = ? AND name = ? AND etag = ?"
)
_CATALOGUE = (Table.TOPICS, Table.EVENT_SUBSCRIPTIONS)
_NO_CATALOGUE = (STATE, PROCESSES)  # partitions


class SqlDocuments:
    """
    ResourceStore. Each change of topics and subscriptions draws a new version of the catalogue.

    One that was counted up would come back after a restore, with other topics and subscriptions.

    *changed* hears of each change of a table, from the thread of its writer.
    """

    def __init__(
        self,
        database: Database,
        new_id: Callable[[], str],
        changed: Callable[[Table], object] = lambda _: None,
    ) -> None:
        self._database = database
        self._new_id = new_id
        self._changed = changed

    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        if not _are_keys(partition, name):
            return None
        return self._database.read(lambda reading: find_document(reading, table, partition, name))

    def put(
        self, table: Table, partition: str, name: str, document: Document, etag: str | None
    ) -> Resource:
        if not _are_keys(partition, name):
            raise ValueError(f"'{partition}' and '{name}' can't be keys of a table")
        text = json.dumps(document, separators=(",", ":"))  # in ASCII: lone surrogates survive
        if len(text) > _DOCUMENT_CHARACTERS:
            raise InvalidDocument(f"The document is larger than {_DOCUMENT_CHARACTERS} characters.")
        key = table.value, partition.lower(), name.lower()
        row = key[2], self._new_id(), text
        pause = _pause_of(table, document)

        def write(writing: WriteTransaction) -> Resource:
            # Compared as it is written: another process may write meanwhile.
            values = *row[1:], pause, *key
            statement, expected = (_UPDATE, [etag]) if etag else (_INSERT, [])
            if not writing.run(statement, *values, *expected):
                there = find_document(writing, table, partition, name)
                if there and there.document == json.loads(text):
                    return there
                raise Conflict
            self._note_change(writing, table, partition)
            return _resource(row)

        return self._write(table, partition, write)

    def delete(self, table: Table, partition: str, name: str, etag: str | None = None) -> bool:
        if not _are_keys(partition, name):
            return False

        def write(writing: WriteTransaction) -> bool:
            deleted = writing.run(
                "DELETE FROM documents WHERE kind = ? AND partition = ? AND name = ?"
                f"{' AND etag = ?' if etag else ''}",
                *(table.value, partition.lower(), name.lower(), *([etag] if etag else [])),
            )
            if deleted:
                self._note_change(writing, table, partition)
            return bool(deleted)

        return self._write(table, partition, write)

    def _write(self, table: Table, partition: str, write: Write[T]) -> T:
        try:
            return self._database.write(
                write, WriteOptions(catalogue=_catalogue_of(table, partition))
            )
        finally:  # also where nobody knows whether it is stored
            self._changed(table)

    def _note_change(self, writing: WriteTransaction, table: Table, partition: str) -> None:
        if _catalogue_of(table, partition):
            drawn = int(self._new_id()[:_VERSION_DIGITS], 16)
            writing.run("UPDATE state SET value = ? WHERE name = 'catalogue'", drawn)

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        if not _are_keys(partition):
            return []
        wanted = "kind = ? AND partition = ? ORDER BY name"
        statement = f"SELECT {_COLUMNS} FROM documents WHERE {wanted}"
        values = table.value, partition.lower()
        found = self._database.read(lambda reading: reading.rows(statement, *values))
        return [_resource(row) for row in found]

    def list_all(self, table: Table) -> Sequence[Resource]:
        return self._database.read(lambda reading: list_documents(reading, table))

    def read_version(self) -> int:
        """Return a number that each change of topics and subscriptions draws anew."""
        wanted = "SELECT value FROM state WHERE name = 'catalogue'"
        return int(self._database.read(lambda reading: reading.rows(wanted)[0][0]))


def list_documents(reading: ReadTransaction, table: Table) -> Sequence[Resource]:
    statement = f"SELECT {_COLUMNS} FROM documents WHERE kind = ? ORDER BY partition, name"
    return [_resource(row) for row in reading.rows(statement, table.value)]


def find_document(
    reading: ReadTransaction, table: Table, partition: str, name: str
) -> Resource | None:
    """Return a document; *partition* and *name* are legal keys."""
    rows = reading.rows(
        f"SELECT {_COLUMNS} FROM documents WHERE kind = ? AND partition = ? AND name = ?",
        *(table.value, partition.lower(), name.lower()),
    )
    return _resource(rows[0]) if rows else None


def _pause_of(table: Table, document: Document) -> str | None:
    """
    Return what the events of a subscription wait for, which no later pause or hold is.

    Since when it is paused; or by which release its endpoint was let go before this hold: one that
    is extended goes on. ``None``: it is neither paused nor held.
    """
    if table is Table.ENDPOINT_HEALTH and document.get("hold"):
        return plain(f"hold {document.get('releasedAt')} {document.get('endpoint')}")
    pause = document.get("pause") if table is Table.EVENT_SUBSCRIPTIONS else None
    since = pause.get("since") if isinstance(pause, dict) else None
    return plain(since) if isinstance(since, str) else None


def _catalogue_of(table: Table, partition: str) -> Catalogue:
    is_of_it = table in _CATALOGUE and partition.lower() not in _NO_CATALOGUE
    return Catalogue.EXCLUSIVE if is_of_it else Catalogue.NONE


def _are_keys(*texts: str) -> bool:
    """Tell whether *texts* are legal keys; others name no row, so the database is not asked."""
    return all(_KEY.fullmatch(text) for text in texts)


def _resource(row: Row) -> Resource:
    """Return the document of a row, or why it has none."""
    name, etag, text = row
    document: Any = {}
    fault = ""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        fault = f"the row holds no JSON document: {error}"
    if not isinstance(document, dict):
        document, fault = {}, f"the row holds {type(document).__name__} instead of an object"
    return Resource(name=name, document=document, etag=etag, fault=fault)
