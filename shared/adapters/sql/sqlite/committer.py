"""Commits groups of writes on the one connection that writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared import telemetry
from shared.adapters.sql.database import Write
from shared.adapters.sql.group_writer import GroupWrite, WriteResult, unavailable
from shared.adapters.sql.sqlite.connection import SqliteConnection
from shared.adapters.sql.sqlite.files import Broken


class SqliteCommitter:
    """Committer on *connection*."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection

    def commit(self, group: Sequence[GroupWrite]) -> Sequence[WriteResult]:
        try:
            self._connection.begin()
            results = self._together(group)
            if results is None:
                self._connection.rollback()
                self._connection.begin()
                results = [self._apart(each.call) for each in group]
            self._connection.commit()
        except Exception as error:  # noqa: BLE001 - everybody hears of it
            self._connection.rollback()
            telemetry.error("storage.failed", error=type(error).__name__, detail=str(error))
            return [WriteResult(error=unavailable(error)) for _ in group]
        return results

    def tidy(self) -> None:
        self._connection.tidy()

    def close(self) -> None:
        self._connection.close()

    def _together(self, group: Sequence[GroupWrite]) -> Sequence[WriteResult] | None:
        """Run all writes; ``None``: one was refused that has written something."""
        results = []
        for each in group:
            before = self._connection.changes
            results.append(self._outcome(each.call))
            if results[-1].error and self._connection.changes != before:
                return None
        return results

    def _apart(self, write: Write[Any]) -> WriteResult:
        """Run a write in a savepoint; what a refused one has written is undone."""
        self._connection.savepoint()
        result = self._outcome(write)
        if result.error:
            self._connection.undo()
        else:
            self._connection.release()
        return result

    def _outcome(self, write: Write[Any]) -> WriteResult:
        try:
            return WriteResult(write(self._connection))
        except Broken:
            raise
        except Exception as error:  # noqa: BLE001 - its caller gets it
            return WriteResult(error=error)
