"""All that a deployment stores, in an SQL database."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable

from shared.adapters.sql.attempts import SqlAttempts
from shared.adapters.sql.counts import SqlCounts
from shared.adapters.sql.database import Database, new_id
from shared.adapters.sql.dead_letters import SqlDeadLetters
from shared.adapters.sql.documents import SqlDocuments
from shared.adapters.sql.leases import SqlLeases
from shared.adapters.sql.messages import NewMessages
from shared.adapters.sql.payloads import SqlPayloads
from shared.adapters.sql.queues import SqlQueues, Waiting
from shared.adapters.sql.sender import SqlSender
from shared.adapters.sql.settling import SqlSettling
from shared.adapters.sql.traits import SQL
from shared.clock import Clock
from shared.engine.keeping.poison_records import PoisonRecords
from shared.engine.ports import DeadLetters, Metrics, Table, Threads
from shared.engine.ports.leases import GiveUp, Lease
from shared.engine.ports.measures import StoreMeasure, Unfinished
from shared.subscriptions.subscription import SubscriptionKey

ACCOUNT = "pushgrid"


class SqlStore:
    """
    A store in *database*; *next_number* returns those of its messages.

    *account* is the name of the storage account for which it stands, *blob_url* begins the
    addresses of its blobs; *other_accounts* has the dead letters of others. *give_up* records a
    message that nobody can handle; without it, its text alone is recorded. *new_id* returns 32
    hexadecimal digits that nothing else has.
    """

    traits = SQL

    def __init__(  # noqa: PLR0913 - this is all, and each by its name
        self,
        database: Database,
        next_number: Callable[[], int],
        *,
        clock: Clock,
        threads: Threads,
        account: str = ACCOUNT,
        blob_url: str = "",
        other_accounts: DeadLetters | None = None,
        look_every: float = math.inf,
        new_id: Callable[[], str] = new_id,
        give_up: GiveUp | None = None,
    ) -> None:
        self.account = account
        # PostgreSQL's sets it: others change it, too.
        self.catalogue_version: Callable[[], int] | None = None
        self.database = database
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
        self._new = NewMessages(next_number, clock)
        self.sender = SqlSender(database, self._new, self.leases)
        self.attempts = SqlAttempts(database)
        self.counts = SqlCounts(database)

    def _changed(self, table: Table) -> None:
        if table in (Table.EVENT_SUBSCRIPTIONS, Table.ENDPOINT_HEALTH):
            self.leases.may_be_unparked()

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
            database=self.database,
            new=self._new,
            sender=self.sender,
            leases=self.leases,
            lease=lease,
            metrics=metrics,
            clock=self._clock,
        )

    def measures(self) -> list[StoreMeasure]:
        commits, seconds = self.database.commit_time
        return [
            StoreMeasure("commits_total", "Transactions committed.", commits, only_rises=True),
            StoreMeasure(
                "commit_seconds_total",
                "Seconds that commits took, with their syncs.",
                seconds,
                only_rises=True,
            ),
            *self.database.measures(),
        ]

    @property
    def fault(self) -> str:
        """Why nothing may be stored now; empty: the last transaction was."""
        return self.database.fault

    def close(self) -> None:
        """Store what was asked for, and let go of the database."""
        self.database.close()
