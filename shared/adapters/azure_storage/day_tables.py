"""Names, lists, fills, queries and drops tables of one day each; writes keys that hold names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.errors import create_if_missing, none_if_code, storage_errors
from shared.adapters.azure_storage.tries import LIMIT
from shared.clock import Deadline
from shared.errors import FirstFault

if TYPE_CHECKING:
    from azure.data.tables import TableClient

MAX_ROWS = 100  # of one transaction, all of one partition
WRITE_SECONDS = 3.0  # of a transaction with its repetitions
NO_TABLE = "TableNotFound"
_BEING_DELETED = "TableBeingDeleted"
HOUR = "%Y%m%d%H"
_DAY = "%Y%m%d"
_NO_KEY = re.compile(r"[^a-z0-9-]")


class DayTables:
    """The tables whose names are *beginning* and a day (UTC)."""

    def __init__(self, account: StorageClients, beginning: str) -> None:
        self._account = account
        self._beginning = beginning
        self._own = re.compile(f"{beginning}[0-9]{{8}}")

    def name(self, day: date) -> str:
        return f"{self._beginning}{day:{_DAY}}"

    def names(self) -> list[str]:
        """Return the names of the existing tables, the oldest day first."""
        return sorted(filter(self._own.fullmatch, self._account.tables_named(self._beginning)))

    def delete_before(self, day: date, deadline: Deadline) -> int:
        """Delete all tables of days before *day*, until *deadline*; return how many there were."""
        first, dropped = FirstFault(), 0
        with storage_errors():
            names = self.names()
        for name in names:
            if name < self.name(day) and not deadline.has_passed:
                with first, storage_errors():
                    none_if_code(self._account.table(name).delete_table, NO_TABLE, _BEING_DELETED)
                    dropped += 1
        first.raise_it()
        return dropped


def upsert(table: TableClient, rows: Sequence[dict[str, Any]]) -> None:
    """
    Write rows of one partition, at most `MAX_ROWS`; make the table if it is missing.

    A transaction of one row would take over twice the processor time of the row alone.
    """
    from azure.data.tables import UpdateMode

    limits: dict[str, Any] = {LIMIT: WRITE_SECONDS}

    def write() -> object:
        if len(rows) == 1:
            return table.upsert_entity(rows[0], UpdateMode.REPLACE, **limits)
        operations = [("upsert", row, {"mode": UpdateMode.REPLACE}) for row in rows]
        return table.submit_transaction(operations, **limits)

    create_if_missing(write, lambda: table.create_table(**limits), NO_TABLE)


def rows_of(table: TableClient, wanted: str, **values: Any) -> list[Any]:
    """Return the *wanted* rows of a table, none if it is missing; *values* are its parameters."""
    with storage_errors():
        query = partial(table.query_entities, wanted, parameters=values)
        return none_if_code(lambda: list(query()), NO_TABLE) or []


def partition_of(topic: str, subscription: str, at: datetime) -> str:
    """Return the partition of a subscription and an hour; they sort by time."""
    return f"{key_of(topic, subscription)}{at.astimezone(UTC):{HOUR}}"


def key_of(*names: str) -> str:
    """Encode names as a key prefix: legal, and unique up to case."""
    legal = [_NO_KEY.sub(lambda found: f"_{ord(found[0]):x}_", name.lower()) for name in names]
    return "".join(f"{name}|" for name in legal)
