"""The home in a folder of this machine: SQLite, whose lock leases everything to one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw

from server import azure_accounts
from server.data_folder import MARK, lost
from server.failure import CannotStart
from server.sql_home import SqlHome
from shared.adapters.sql.database import StoreRefused
from shared.adapters.sql.documents import list_documents
from shared.adapters.sql.sqlite import reader
from shared.adapters.sql.sqlite.files import refusal_of
from shared.adapters.sql.sqlite.folder import DATABASE, waiting
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.engine.ports import Table, Threads
from shared.engine.ports.leases import GiveUp, HasShare
from shared.errors import InvalidSettings, StorageUnavailable
from shared.settings import Settings
from shared.watched_clock import WatchedClock

#: The version of the library that is linked.
SQLITE = apsw.sqlite_lib_version()


def check_store(folder: Path, settings: Settings | None) -> str | None:
    """
    Return what is doubtful for a server with *settings* about the store in *folder*.

    Raises:
        CannotStart: this program can't use it.
    """
    try:
        if not reader.check_store(folder):
            return lost(folder) if (folder / MARK).exists() and not waiting(folder) else None
        if not settings:
            return None
        with reader.reading(folder) as read:
            stored = read(lambda reading: list_documents(reading, Table.EVENT_SUBSCRIPTIONS))
    except InvalidSettings as error:
        raise CannotStart(error.message) from None
    return "; ".join(azure_accounts.unknown(stored, settings).values()) or None


class SqliteHome(SqlHome):
    """Implements `Home` with a `SqliteStore` in *folder*, made by *make_store*."""

    is_elected = True  # the folder has one server
    store: SqliteStore

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        clock: WatchedClock,
        threads: Threads,
        make_store: Callable[..., SqliteStore] = SqliteStore,
    ) -> None:
        super().__init__(settings, clock, threads)
        self._make = partial(
            make_store, folder, clock=clock, told=clock.storage_answered, **self._options
        )
        self._folder = folder
        self._died = asyncio.Event()

    async def open(self, give_up: GiveUp, has_share: HasShare) -> None:
        del has_share  # One process has all of it.
        loop = asyncio.get_running_loop()

        def died(_: str) -> None:
            loop.call_soon_threadsafe(self._died.set)

        self.store = await self._off_loop(partial(self._make, died=died, give_up=give_up))

    def refusal_of(self, error: StorageUnavailable) -> StoreRefused:
        return refusal_of(error, self._folder / DATABASE)

    @property
    def is_new(self) -> bool:
        return self.store.database.run == 1

    async def broken(self) -> str:
        await self._died.wait()
        return self.store.database.dead

    async def close(self) -> None:
        try:
            await self.store.leases.close()
        finally:
            await self._off_loop(self.store.close)
