"""The rows that servers store, as their transactions change them."""

from __future__ import annotations

from typing import Any, NamedTuple

import apsw

Row = tuple[Any, ...]
#: The tables that are mirrored, and how many of their first columns are the key.
KEYS = {
    "documents": 3,
    "messages": 1,
    "parts": 3,
    "message_payloads": 2,
    "parked": 1,
    "payloads": 1,
    "blobs": 2,
    "attempts": 6,
    "processes": 1,
}


class Change(NamedTuple):
    """A row that was changed; ``None``: there was none, or is none any more."""

    table: str
    old: Row | None
    new: Row | None

    @property
    def key(self) -> Row:
        row = self.new or self.old or ()
        return row[: KEYS[self.table]]


def changes_of(change: apsw.PreUpdate) -> list[Change]:
    """Return what SQLite tells of a row that changes, if its table is mirrored."""
    if change.table_name not in KEYS:
        return []
    old = None if change.op == "INSERT" else kept(change.table_name, change.old)
    new = None if change.op == "DELETE" else kept(change.table_name, change.new)
    return [Change(change.table_name, old, new)]


def kept(table: str, row: Any) -> Row:
    """Return a row without what only its writer knows: the version of a document."""
    return (*row[:3], row[5], row[4]) if table == "documents" else tuple(row)
