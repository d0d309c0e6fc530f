"""Keeps attempts by day, in partitions that are made ahead and dropped as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta

from shared.adapters.sql.attempts import SqlAttempts, day_of, row_of
from shared.adapters.sql.database import micros, moment
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.postgres.transaction import Transaction
from shared.clock import Clock, Deadline
from shared.delivery.attempt_record import AttemptRecord

_DAY = timedelta(days=1)
_BEHIND, _AHEAD = 2, 4  # days around today
_DROP_MS = 500  # for which others may have to wait


class PostgresAttempts(SqlAttempts):
    """AttemptLog and AttemptReader; records take at most *most_bytes*, but for a day's."""

    def __init__(self, database: PostgresDatabase, clock: Clock) -> None:
        super().__init__(database)
        self._apart = database.connections.apart
        self._clock = clock

    def make_days(self) -> None:
        """Make the partitions of the days around today. Raises StorageUnavailable."""
        now = self._clock.now()
        self._make(micros(now + number * _DAY) for number in range(-_BEHIND, _AHEAD + 1))

    def write(self, records: Sequence[AttemptRecord]) -> None:
        self._make(row_of(each)[2] for each in records)
        super().write(records)

    def delete_before(self, day: date, deadline: Deadline) -> int:
        """Drop also the oldest days of what is beyond the bound of size, but never the last."""
        limit = micros(datetime(day.year, day.month, day.day, tzinfo=UTC))
        dropped = 0
        for old in self._too_old(limit):
            if deadline.has_passed:
                break
            had_some = self._apart(lambda transaction, old=old: _drop(transaction, old))  # type: ignore[misc]
            dropped += had_some and old < limit
        return dropped

    def _make(self, hours: Iterable[int]) -> None:
        wanted = {day_of(each) for each in hours}
        known = {day for (day,) in self._rows("SELECT day FROM attempt_days")}
        if wanted - known:
            self._apart(lambda transaction: _make(transaction, sorted(wanted - known)))

    def _too_old(self, limit: int) -> list[int]:
        """Return the days before *limit*, and the oldest before today of what is too much."""
        left, today = self.most_bytes, day_of(micros(self._clock.now()))
        old = []
        for (day,) in self._rows("SELECT day FROM attempt_days ORDER BY day DESC"):
            ((size,),) = self._rows("SELECT pg_total_relation_size(to_regclass(?))", _table(day))
            left -= size or 0
            if day < limit or (left < 0 and day < today):
                old.append(day)
        return sorted(old)


def _make(transaction: Transaction, days: Sequence[int]) -> None:
    """Attach new partitions: unlike making them in their place, this keeps nobody waiting."""
    for day in days:
        # Who makes the same one waits, and then has it.
        new = "INSERT INTO attempt_days (day) VALUES (?) ON CONFLICT DO NOTHING"
        if transaction.run(new, day):
            table, until = _table(day), day + _DAY // timedelta(microseconds=1)
            transaction.execute(f"CREATE TABLE {table} (LIKE attempts INCLUDING ALL)")
            of = f"ATTACH PARTITION {table} FOR VALUES FROM ({day}) TO ({until})"
            transaction.execute(f"ALTER TABLE attempts {of}")


def _drop(transaction: Transaction, day: int) -> bool:
    """Drop a day; tell whether it had records."""
    transaction.execute(f"SET LOCAL lock_timeout = {_DROP_MS}")
    if not transaction.run("DELETE FROM attempt_days WHERE day = ?", day):
        return False
    table = _table(day)
    ((had_some,),) = transaction.rows(f"SELECT EXISTS (SELECT FROM {table})")
    transaction.execute(f"DROP TABLE {table}")
    return bool(had_some)


def _table(day: int) -> str:
    return f"attempts_{moment(day):%Y%m%d}"
