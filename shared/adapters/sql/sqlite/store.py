"""All that a deployment stores, in SQLite."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from shared.adapters.sql.database import new_id
from shared.adapters.sql.messages import numbers_of
from shared.adapters.sql.sqlite.database import LOW_WATER, SqliteDatabase
from shared.adapters.sql.sqlite.files import Connect, connect
from shared.adapters.sql.sqlite.folder import Folder
from shared.adapters.sql.store import SqlStore
from shared.clock import Clock
from shared.engine.ports import Threads


class SqliteStore(SqlStore):
    """
    Store in SQLite, in a folder that is this process's until `close`.

    *died* is called, from another thread, when nothing can be stored any more: the process has to
    end. *told* gets the time as `WatchedClock.storage_answered` does. *others* are those of
    `SqlStore`.

    Raises:
        StoreRefused: the folder can't be used; the message says what to do.
    """

    database: SqliteDatabase

    def __init__(  # noqa: PLR0913 - this is all, and each by its name
        self,
        folder: Path,
        *,
        clock: Clock,
        threads: Threads,
        low_water: int = LOW_WATER,
        died: Callable[[str], object] = lambda _: None,
        told: Callable[[datetime, float], object] = lambda _, __: None,
        connect: Connect = connect,
        new_id: Callable[[], str] = new_id,
        **others: Any,
    ) -> None:
        database = SqliteDatabase(
            Folder(folder),
            clock,
            threads,
            connect=connect,
            new_id=new_id,
            low_water=low_water,
            died=died,
            told=told,
        )
        super().__init__(
            database,
            numbers_of(database.run).__next__,
            clock=clock,
            threads=threads,
            new_id=new_id,
            **others,
        )
