"""Stores events that don't fit into messages: a row a publish request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from shared.adapters.sql.database import (
    MOST_ROWS,
    Database,
    WriteOptions,
    WriteTransaction,
    micros,
    moment,
)
from shared.clock import Deadline

_HOUR = "%Y%m%d%H"
_BATCH = min(MOST_ROWS, 256)  # each may be large


class SqlPayloads:
    """PayloadStore. A payload that a message names is kept, however old it is."""

    def __init__(self, database: Database, new_id: Callable[[], str]) -> None:
        self._database = database
        self._new_id = new_id

    def write(self, publish_id: str, expires: datetime, texts: Sequence[str]) -> str:
        if not texts or any("\n" in text for text in texts):
            raise ValueError("A payload has at least one text, and each is one line.")
        name = f"{expires.astimezone(UTC):{_HOUR}}/{publish_id}-{self._new_id()[:12]}"
        row = name, micros(expires), "\n".join(texts).encode()
        statement = "INSERT INTO payloads (name, expires, body) VALUES (?, ?, ?)"
        self._database.write(lambda writing: writing.run(statement, *row), WriteOptions(grows=True))
        return name

    def read(self, name: str) -> Sequence[str] | None:
        statement = "SELECT body FROM payloads WHERE name = ?"
        found = self._database.read(lambda reading: reading.rows(statement, name))
        return tuple(found[0][0].decode().split("\n")) if found else None

    def delete_expired(self, now: datetime, deadline: Deadline) -> int:
        hour = moment(micros(now)).replace(minute=0, second=0, microsecond=0)
        deleted = 0

        def write(writing: WriteTransaction) -> int:
            return writing.run(
                "DELETE FROM payloads WHERE name IN (SELECT name FROM payloads WHERE expires < ?"
                " AND NOT EXISTS (SELECT 1 FROM message_payloads WHERE payload = payloads.name)"
                " ORDER BY expires LIMIT ?)",
                *(micros(hour), _BATCH),
            )

        while not deadline.has_passed:
            batch = self._database.write(write)
            deleted += batch
            if batch < _BATCH:
                break
        return deleted
