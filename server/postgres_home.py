"""The home in a database of PostgreSQL's, which several servers may share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import psycopg

from server.failure import CannotStart
from server.sql_home import RETENTION_EVERY, SqlHome
from server.store_url import PostgresOptions
from shared import telemetry
from shared.adapters.sql.database import ReadTransaction, StoreRefused
from shared.adapters.sql.postgres.connecting import Connecting
from shared.adapters.sql.postgres.connections import reading
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.postgres.store import PostgresStore
from shared.app import BackgroundWork
from shared.engine.ports import Threads
from shared.engine.ports.leases import GiveUp, HasShare
from shared.errors import InvalidSettings, StorageUnavailable
from shared.settings import Settings
from shared.watched_clock import WatchedClock

_SLOW_SECONDS = 5.0  # that a start takes before it says for what it waits


def check_store(options: PostgresOptions) -> str | None:
    """Return what is doubtful. Raises CannotStart: a home could not use the database."""
    connecting = Connecting(options.parameters, prepares=not options.is_pooled)
    try:
        return connecting.check(allows_unsafe=options.allows_unsafe)
    except InvalidSettings as error:
        raise CannotStart(error.message) from None


def reading_of(
    parameters: Mapping[str, Any],
) -> AbstractContextManager[Callable[[Callable[[ReadTransaction], Any]], Any]]:
    """Give what reads the database, whose servers may run. Raises InvalidSettings: it can't be."""
    return reading(Connecting(parameters, prepares=False))


class PostgresHome(SqlHome):
    """Implements `Home` with a `PostgresStore`, made by *make_store* in *make_database*'s."""

    store: PostgresStore

    def __init__(  # noqa: PLR0913 - this is all, and each by its name
        self,
        options: PostgresOptions,
        settings: Settings,
        clock: WatchedClock,
        threads: Threads,
        *,
        make_database: Callable[..., PostgresDatabase] = PostgresDatabase,
        make_store: Callable[..., PostgresStore] = PostgresStore,
    ) -> None:
        super().__init__(settings, clock, threads)
        self._connecting = Connecting(options.parameters, prepares=not options.is_pooled)
        self._make_database = partial(
            make_database,
            self._connecting,
            threads,
            told=clock.storage_answered,
            allows_unsafe=options.allows_unsafe,
        )
        self._make_store = partial(make_store, **self._options)

    @property
    def is_elected(self) -> bool:
        return self.store.database.processes.is_elected

    @property
    def background(self) -> Sequence[BackgroundWork]:
        days = BackgroundWork("partitions", RETENTION_EVERY, self._make_days)
        return [*super().background, days]

    def _delete_old(self) -> bool:
        super()._delete_old()
        self.store.database.processes.forget_processes()
        return False

    def _make_days(self) -> bool:
        self.store.attempts.make_days()
        return False

    async def open(self, give_up: GiveUp, has_share: HasShare) -> None:
        told = asyncio.get_running_loop().call_later(_SLOW_SECONDS, self._tell_of_waiting)
        try:
            self.store = await self._off_loop(
                lambda: self._make_store(self._make_database(), give_up=give_up)
            )
        except StorageUnavailable as error:
            raise self.refusal_of(error) from error
        finally:
            told.cancel()
        self.store.sender.has_share = has_share
        self.store.database.begin()
        # All servers go by the database's time.
        self._clock.follow(self.store.time.now)
        self._clock.storage_answered(self.store.time.now(), 0.0)

    def refusal_of(self, error: StorageUnavailable) -> StoreRefused:
        place, cause = self._connecting.place, error.__cause__
        why = self._connecting.said(cause) if isinstance(cause, psycopg.Error) else str(error)
        return StoreRefused(
            f"The database {place} has failed while this server began: {why} Try again."
        )

    def _tell_of_waiting(self) -> None:
        telemetry.warning(
            "storage.waiting",
            detail=f"This server waits for the database {self._connecting.place}. If SyncRep is a "
            "wait_event in pg_stat_activity, commits wait for a synchronous standby.",
        )

    @property
    def is_new(self) -> bool:
        return self.store.database.is_new

    async def broken(self) -> str:
        """Wait for ever: a database that is away comes back."""
        await asyncio.Event().wait()
        return ""

    async def close(self) -> None:
        try:
            await self.store.leases.close()
            await self._off_loop(self._end_process)
        finally:
            await self._off_loop(self.store.close)

    def _end_process(self) -> None:
        with suppress(StorageUnavailable):  # Then the others find it dead by its silence.
            self.store.database.processes.end_process()
