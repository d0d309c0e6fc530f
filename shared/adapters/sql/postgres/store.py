"""All that a deployment stores, in a database of PostgreSQL's, beside other processes."""

from __future__ import annotations

from typing import Any

from shared.adapters.sql.postgres.attempts import PostgresAttempts
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.store import SqlStore
from shared.clock import Clock

#: Seconds between looks for what others have stored: less than it is claimed `AHEAD`, so that it is
#: in hand when it is due.
LOOK_EVERY = 0.75


class PostgresStore(SqlStore):
    """
    Store in *database*, until `close`.

    All goes by the time of the database, unless a *clock* is given. *others* are those of
    `SqlStore`.

    Raises:
        StorageUnavailable: the database does not answer.
    """

    attempts: PostgresAttempts
    database: PostgresDatabase

    def __init__(
        self,
        database: PostgresDatabase,
        *,
        clock: Clock | None = None,
        look_every: float = LOOK_EVERY,
        **others: Any,
    ) -> None:
        self.time: Clock = clock or database.time
        super().__init__(
            database, database.next_number, clock=self.time, look_every=look_every, **others
        )
        database.in_hand = self.leases.numbers_in_hand
        database.lost = self.leases.empty
        database.processes.found_dead = self.leases.look_for_the_dead
        self.catalogue_version = self.documents.read_version
        self.attempts = PostgresAttempts(database, self.time)
        self.attempts.make_days()
