"""The home in a folder of this machine: SQLite, whose lock leases everything to one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import apsw

from server import azure_accounts
from server.blobs import BLOBS
from server.data_folder import MARK, lost
from server.failure import CannotStart
from shared import telemetry
from shared.adapters.sql.documents import list_documents
from shared.adapters.sql.sqlite import reader
from shared.adapters.sql.sqlite.folder import waiting
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.app import BackgroundWork
from shared.clock import Deadline
from shared.engine.ports import Metrics, Table, Threads
from shared.engine.ports.leases import GiveUp, HasShare, Lease, Leases
from shared.engine.ports.settling import Settling
from shared.errors import InvalidSettings
from shared.settings import Settings
from shared.subscriptions.subscription import SubscriptionKey
from shared.watched_clock import WatchedClock

#: Dead letters and poison records go after this time: nobody else bounds the folder.
DEAD_LETTERS_KEPT_FOR = timedelta(days=90)
_RETENTION_EVERY, _RETENTION_AT_MOST = timedelta(hours=1), timedelta(minutes=1)
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


class SqliteHome:
    """Implements `Home` with a `SqliteStore` in *folder*, made by *make_store*."""

    is_elected = has_lease = True  # the folder has one server
    store: SqliteStore

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        clock: WatchedClock,
        threads: Threads,
        make_store: Callable[..., SqliteStore] = SqliteStore,
    ) -> None:
        self._make = partial(
            make_store,
            folder,
            clock=clock,
            threads=threads,
            account=settings.own_account,
            blob_url=f"{settings.public_url}/{BLOBS}" if settings.public_url else "",
            other_accounts=azure_accounts.dead_letters(settings),
            told=clock.storage_answered,
        )
        self._clock = clock
        self._monotonic = threads.monotonic
        self._off_loop = threads.pool("home", 1)
        self._died = asyncio.Event()

    @property
    def leases(self) -> Leases:
        return self.store.leases

    def settling(self, lease: Lease, metrics: Metrics) -> Settling:
        return self.store.settling(lease, metrics)

    @property
    def background(self) -> Sequence[BackgroundWork]:
        return [BackgroundWork("retention", _RETENTION_EVERY, self._delete_old)]

    def _delete_old(self) -> bool:
        before = self._clock.now() - DEAD_LETTERS_KEPT_FOR
        if self._clock.is_trusted:
            deadline = Deadline(_RETENTION_AT_MOST, self._monotonic)
            if count := self.store.dead_letters.delete_before(before, deadline):
                telemetry.info("dead_letters.deleted", count=count)
        return False

    @property
    def fault(self) -> str | None:
        return self.store.fault or None

    async def open(self, give_up: GiveUp, has_share: HasShare) -> None:
        del has_share  # One process has all of it.
        loop = asyncio.get_running_loop()

        def died(_: str) -> None:
            loop.call_soon_threadsafe(self._died.set)

        self.store = await self._off_loop(partial(self._make, died=died, give_up=give_up))

    @property
    def is_new(self) -> bool:
        return self.store.database.run == 1

    def has_waiting(self, key: SubscriptionKey) -> bool:
        return any(key.folded in found for found in self.store.queues.unfinished())

    async def broken(self) -> str:
        await self._died.wait()
        return self.store.database.dead

    async def close(self) -> None:
        try:
            await self.store.leases.close()
        finally:
            await self._off_loop(self.store.close)
