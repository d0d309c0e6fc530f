"""All that a deployment stores, in an SQL database."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from shared.adapters.sql.attempts import MOST_BYTES, SqlAttempts
from shared.adapters.sql.counts import SqlCounts
from shared.adapters.sql.database import Database, new_id
from shared.adapters.sql.dead_letters import SqlDeadLetters
from shared.adapters.sql.documents import SqlDocuments
from shared.adapters.sql.folder import Folder
from shared.adapters.sql.leases import SqlLeases
from shared.adapters.sql.messages import NewMessages, numbers_of
from shared.adapters.sql.payloads import SqlPayloads
from shared.adapters.sql.queues import SqlQueues, Waiting
from shared.adapters.sql.sender import SqlSender
from shared.adapters.sql.settling import SqlSettling
from shared.adapters.sql.sqlite import LOW_WATER, Connect, SqliteDatabase, connect
from shared.adapters.sql.traits import SQL
from shared.clock import Clock
from shared.engine.keeping.poison_records import PoisonRecords
from shared.engine.ports import DeadLetters, Metrics, Table, Threads
from shared.engine.ports.leases import GiveUp, Lease
from shared.engine.ports.measures import StoreMeasure, Unfinished
from shared.subscriptions.subscription import SubscriptionKey

ACCOUNT = "pushgrid"


class SqlParts:
    """
    The parts of a store in *database*; *numbers* are those of its messages.

    *account* is the name of the storage account for which it stands, *blob_url* begins the
    addresses of its blobs; *other_accounts* has the dead letters of others. *give_up* records a
    message that nobody can handle; without it, its text alone is recorded. *new_id* returns 32
    hexadecimal digits that nothing else has.
    """

    traits = SQL

    def __init__(  # noqa: PLR0913 - this is all, and each by its name
        self,
        database: Database,
        numbers: Iterator[int],
        *,
        clock: Clock,
        threads: Threads,
        account: str = ACCOUNT,
        blob_url: str = "",
        other_accounts: DeadLetters | None = None,
        attempt_bytes: int = MOST_BYTES,
        look_every: float = math.inf,
        new_id: Callable[[], str] = new_id,
        give_up: GiveUp | None = None,
    ) -> None:
        self.account = account
        self.catalogue_version: Callable[[], int] | None = None  # One process changes it.
        self._database = database
        self.documents = SqlDocuments(database, new_id, self._changed)
        self.queues = SqlQueues(database, clock)
        self.payloads = SqlPayloads(database, new_id)
        self.dead_letters = SqlDeadLetters(
            database, clock, account, url=blob_url, others=other_accounts
        )
        poison = PoisonRecords(
            store=self.dead_letters,
            clock=clock,
            new_id=lambda: str(uuid.uuid4()),
            hear=lambda _: None,  # It records bodies, and knows of no deliveries in them.
        )
        given = give_up or poison.write
        self.leases = SqlLeases(database, clock, threads, given, look_every=look_every)
        self._clock = clock
        self._new = NewMessages(numbers, clock)
        self.sender = SqlSender(database, self._new, self.leases)
        self.attempts = SqlAttempts(database, attempt_bytes)
        self.counts = SqlCounts(database)

    def _changed(self, table: Table) -> None:
        if table in (Table.EVENT_SUBSCRIPTIONS, Table.ENDPOINT_HEALTH):
            self.leases.may_be_free()

    def unfinished(self) -> dict[SubscriptionKey, Unfinished]:
        waiting, given_up = self.queues.unfinished()
        none = Waiting(0, 0)
        return {
            key: Unfinished(waiting.get(key, none).events, given_up.get(key, none).events)
            for key in waiting.keys() | given_up.keys()
        }

    def settling(self, lease: Lease, metrics: Metrics) -> SqlSettling:
        """Return what settles a message in hand."""
        return SqlSettling(
            database=self._database,
            new=self._new,
            sender=self.sender,
            leases=self.leases,
            lease=lease,
            metrics=metrics,
            clock=self._clock,
        )


class SqlStore(SqlParts):
    """
    Store in SQLite, in a folder that is this process's until `close`.

    *died* is called, from another thread, when nothing can be stored any more: the process has to
    end. *told* gets the time as `WatchedClock.storage_answered` does. *others* are those of
    `SqlParts`.

    Raises:
        StoreRefused: the folder can't be used; the message says what to do.
    """

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
        self.database = SqliteDatabase(
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
            self.database,
            numbers_of(self.database.run),
            clock=clock,
            threads=threads,
            new_id=new_id,
            **others,
        )

    def measures(self) -> list[StoreMeasure]:
        size, free, wal = self.database.sizes
        commits, seconds = self.database.commit_time
        return [
            StoreMeasure("commits_total", "Transactions committed.", commits, only_rises=True),
            StoreMeasure(
                "commit_seconds_total",
                "Seconds that commits took, with their syncs.",
                seconds,
                only_rises=True,
            ),
            StoreMeasure(
                "checkpoints_total",
                "Writes of the log into the database.",
                self.database.checkpoints,
                only_rises=True,
            ),
            StoreMeasure("bytes", "Size of the database.", size),
            StoreMeasure("unused_bytes", "Of these, what nothing needs.", free),
            StoreMeasure("wal_bytes", "Size of the write-ahead log.", wal),
            StoreMeasure("disk_free_bytes", "Free space of the disk.", self.database.free_bytes),
        ]

    @property
    def fault(self) -> str:
        """Why nothing may be stored now; empty: the last transaction was."""
        return self.database.fault

    def close(self) -> None:
        """Store what was asked for, and let another process have the folder."""
        self.database.close()
