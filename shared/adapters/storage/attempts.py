"""Stores attempts, in one table a day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from functools import partial
from itertools import groupby
from typing import Any

from shared.adapters.storage.attempt_rows import (
    TABLE,
    entity_of,
    partitions_since,
    record_of,
)
from shared.adapters.storage.clients import StorageClients
from shared.adapters.storage.day_tables import MAX_ROWS, NO_TABLE, DayTables, upsert
from shared.adapters.storage.errors import none_if_code, storage_errors
from shared.clip import clip
from shared.clock import Clock
from shared.delivery.attempt_record import AttemptRecord
from shared.engine.ports import ALL_ATTEMPTS, AttemptChoice

Row = dict[str, Any]


class StorageAttempts:
    """AttemptLog and AttemptReader on Azure tables. A table that is missing is made."""

    def __init__(self, account: StorageClients, clock: Clock) -> None:
        self._account = account
        self._days = DayTables(account, clock, TABLE)

    def write(self, records: Sequence[AttemptRecord]) -> None:
        # A transaction has a row once: of the same attempt, made twice, the last counts.
        rows = {(self._table(each), *_keys(row := entity_of(each))): row for each in records}
        for (table, _), keys in groupby(sorted(rows), key=lambda key: key[:2]):
            partition = [rows[key] for key in keys]
            client = self._account.table(table)
            for start in range(0, len(partition), MAX_ROWS):
                with storage_errors():
                    upsert(client, partition[start : start + MAX_ROWS])

    def delete_before(self, day: date, deadline: datetime) -> int:
        return self._days.delete_before(day, deadline)

    def read(
        self,
        topic: str,
        subscription: str,
        since: datetime,
        chosen: AttemptChoice = ALL_ATTEMPTS,
    ) -> Iterator[Sequence[AttemptRecord]]:
        with storage_errors():
            names = [name for name, day in self._days.days() if day >= since.astimezone(UTC).date()]
        first, end = partitions_since(topic, subscription, since)
        wanted = "PartitionKey ge @first and PartitionKey lt @end"
        values: dict[str, Any] = {"first": first, "end": end}
        if chosen.event_id is not None:
            wanted += " and EventId eq @event"
            values["event"] = clip(chosen.event_id)
        if chosen.since is not None:
            wanted += " and At ge @attempted"
            values["attempted"] = chosen.since
        if chosen.replay_of is not None:
            wanted += " and ReplayOf eq @job"
            values["job"] = chosen.replay_of
        for name in reversed(names):
            query = partial(self._account.table(name).query_entities, wanted, parameters=values)
            with storage_errors():
                rows = none_if_code(lambda: list(query()), NO_TABLE)  # noqa: B023 - called at once
            if rows:
                yield [record_of(row) for row in rows]

    def _table(self, record: AttemptRecord) -> str:
        return self._days.name(record.published_at.astimezone(UTC).date())


def _keys(row: Row) -> tuple[str, str]:
    return row["PartitionKey"], row["RowKey"]
