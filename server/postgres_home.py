"""The home in a database of PostgreSQL's, which several servers may share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg

from server import azure_accounts
from server.blobs import BLOBS
from server.failure import CannotStart
from server.store_url import PostgresOptions
from shared import telemetry
from shared.adapters.sql.database import ReadTransaction, StoreRefused
from shared.adapters.sql.postgres.connecting import Connecting
from shared.adapters.sql.postgres.connections import reading
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.postgres.store import PostgresStore
from shared.app import BackgroundWork
from shared.clock import Deadline
from shared.engine.ports import Metrics, Threads
from shared.engine.ports.leases import GiveUp, HasShare, Lease, Leases
from shared.engine.ports.settling import Settling
from shared.errors import InvalidSettings, StorageUnavailable
from shared.settings import Settings
from shared.subscriptions.subscription import SubscriptionKey
from shared.watched_clock import WatchedClock

#: As in a folder: nobody else bounds the database.
DEAD_LETTERS_KEPT_FOR = timedelta(days=90)
_RETENTION_EVERY, _RETENTION_AT_MOST = timedelta(hours=1), timedelta(minutes=1)


def check_store(options: PostgresOptions) -> str | None:
    """Return what is doubtful. Raises CannotStart: a home could not use the database."""
    connecting = Connecting(options.parameters, prepares=not options.is_pooled)
    try:
        return connecting.check(allows_async=options.allows_async)
    except InvalidSettings as error:
        raise CannotStart(error.message) from None


def reading_of(
    options: PostgresOptions,
) -> AbstractContextManager[Callable[[Callable[[ReadTransaction], Any]], Any]]:
    """Give what reads the database, whose servers may run. Raises InvalidSettings: it can't be."""
    return reading(Connecting(options.parameters, prepares=False))


class PostgresHome:
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
        self._connecting = Connecting(options.parameters, prepares=not options.is_pooled)
        self._open = partial(
            make_database,
            self._connecting,
            threads,
            told=clock.storage_answered,
            allows_async=options.allows_async,
        )
        self._make = partial(
            make_store,
            threads=threads,
            account=settings.own_account,
            blob_url=f"{settings.public_url}/{BLOBS}" if settings.public_url else "",
            other_accounts=azure_accounts.dead_letters(settings),
        )
        self._clock = clock
        self._monotonic = threads.monotonic
        self._off_loop = threads.pool("home", 1)

    @property
    def leases(self) -> Leases:
        return self.store.leases

    def settling(self, lease: Lease, metrics: Metrics) -> Settling:
        return self.store.settling(lease, metrics)

    @property
    def is_elected(self) -> bool:
        return self.store.database.processes.is_elected

    @property
    def has_lease(self) -> bool:
        return self.store.database.has_lease

    @property
    def background(self) -> Sequence[BackgroundWork]:
        return [
            BackgroundWork("retention", _RETENTION_EVERY, self._delete_old),
            BackgroundWork("partitions", _RETENTION_EVERY, self._make_days),
        ]

    def _delete_old(self) -> bool:
        before = self._clock.now() - DEAD_LETTERS_KEPT_FOR
        if self._clock.is_trusted:
            deadline = Deadline(_RETENTION_AT_MOST, self._monotonic)
            if count := self.store.dead_letters.delete_before(before, deadline):
                telemetry.info("dead_letters.deleted", count=count)
        self.store.database.processes.forget_processes()
        return False

    def _make_days(self) -> bool:
        self.store.attempts.make_days()
        return False

    @property
    def fault(self) -> str | None:
        return self.store.fault or None

    async def open(self, give_up: GiveUp, has_share: HasShare) -> None:
        try:
            self.store = await self._off_loop(lambda: self._make(self._open(), give_up=give_up))
        except StorageUnavailable as error:
            place, cause = self._connecting.place, error.__cause__
            why = self._connecting.said(cause) if isinstance(cause, psycopg.Error) else str(error)
            said = f"The database {place} has failed while this server began: {why} Try again."
            raise StoreRefused(said) from error
        self.store.sender.has_share = has_share
        self.store.database.begin()
        # All servers go by the database's time.
        self._clock.follow(self.store.time.now)
        self._clock.storage_answered(self.store.time.now(), 0.0)

    @property
    def is_new(self) -> bool:
        return self.store.database.is_new

    def has_waiting(self, key: SubscriptionKey) -> bool:
        return any(key.folded in found for found in self.store.queues.unfinished())

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
