"""Stores counts in tables: the minutes of a day in one, all hours in another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import HttpResponseError

from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.day_tables import (
    HOUR,
    MAX_ROWS,
    DayTables,
    key_of,
    partition_of,
    rows_of,
    upsert,
)
from shared.adapters.azure_storage.errors import has_code, storage_errors
from shared.clock import Deadline
from shared.errors import FirstFault
from shared.metrics import (
    CountRow,
    Counts,
    Series,
    Span,
    Sum,
    add,
    counts_of_text,
    text_of_counts,
    total_of,
)
from shared.subscriptions.subscription import SubscriptionKey

if TYPE_CHECKING:
    from azure.data.tables import TableClient


MINUTES = "metrics"  # and a day: the minutes of that day
TOTALS = "metrictotals"  # hours that add up, and the sums of those that are over
HOURS = "hours"  # its one partition
SUM = "0"  # the hour that sums have in its keys: before all others
_MINUTE = "%Y%m%d%H%M"

_NEXT_MINUTE = timedelta(seconds=60, microseconds=-1)  # rounds up
_CHANGED = ("UpdateConditionNotSatisfied", "EntityAlreadyExists", "ResourceNotFound")
Row = Mapping[str, Any]


def minute_key(at: datetime) -> str:
    return f"{at.astimezone(UTC):{_MINUTE}}"


def hour_key(at: datetime) -> str:
    return f"{at.astimezone(UTC):{HOUR}}"


def entity_of(row: CountRow) -> dict[str, Any]:
    """Write a row; the same process and span have the same keys."""
    if row.span is Span.MINUTE:
        return {
            "PartitionKey": partition_of(row.topic, row.subscription, row.start),
            "RowKey": f"{minute_key(row.start)}|{row.instance}",
            "Counts": text_of_counts(row.counts),
        }
    return hours_entity(hour_key(row.start), row, row.start, row.counts, row.instance)


def hours_entity(
    hour: str, of: CountRow | SubscriptionKey, until: datetime, counts: Counts, instance: str = ""
) -> dict[str, Any]:
    """Write the counts of an hour, or (*hour* is `SUM`) of all hours up to *until*."""
    return {
        "PartitionKey": HOURS,
        "RowKey": f"{hour}|{key_of(of.topic, of.subscription)}{instance}",
        "Topic": of.topic,
        "Subscription": of.subscription,
        "Until": until,
        "Counts": text_of_counts(counts),
    }


class StorageMetrics:
    """CountSink, CountReader and MetricRetention on Azure tables. A missing table is made."""

    def __init__(self, account: StorageClients) -> None:
        self._account = account
        self._days = DayTables(account, MINUTES)

    def write(self, rows: Sequence[CountRow]) -> None:
        hours = []
        for row in rows:
            if row.span is Span.HOUR:
                hours.append(entity_of(row))
                continue
            table = self._account.table(self._days.name(row.start.astimezone(UTC).date()))
            with storage_errors(quiet=True):
                upsert(table, [entity_of(row)])
        for start in range(0, len(hours), MAX_ROWS):
            with storage_errors(quiet=True):
                upsert(self._account.table(TOTALS), hours[start : start + MAX_ROWS])

    def minutes(
        self, topic: str, subscription: str, since: datetime, until: datetime
    ) -> Iterator[tuple[datetime, Counts]]:
        # Keys of minutes sort by time, but only within their hour's partition.
        values = {
            "first": partition_of(topic, subscription, since),
            "last": partition_of(topic, subscription, until),
            "since": minute_key(since + _NEXT_MINUTE),
            "until": minute_key(until + _NEXT_MINUTE),
        }
        wanted = (
            "PartitionKey ge @first and PartitionKey le @last"
            " and RowKey ge @since and RowKey lt @until"
        )
        day = since.astimezone(UTC).date()
        while day <= until.astimezone(UTC).date():
            for row in rows_of(self._account.table(self._days.name(day)), wanted, **values):
                digits = row["RowKey"].partition("|")[0]
                yield (
                    datetime.strptime(digits, _MINUTE).replace(tzinfo=UTC),
                    counts_of_text(row["Counts"]),
                )
            day += timedelta(days=1)

    def hours(self, since: datetime) -> Mapping[SubscriptionKey, Counts]:
        return self._sums(" and RowKey ge @since", since=hour_key(since))

    def totals(self) -> Mapping[SubscriptionKey, Counts]:
        return self._sums()

    def roll_up(self, before: datetime, forget: datetime, deadline: Deadline) -> int:
        found: dict[SubscriptionKey, list[Row]] = defaultdict(list)
        for row in self._hours(" and RowKey lt @before", before=hour_key(before)):
            found[_key(row)].append(row)
        table = self._account.table(TOTALS)
        first, rolled_up = FirstFault(), 0
        for rows in found.values():
            if deadline.has_passed:
                break
            with first, storage_errors():
                old = [row for row in rows if row["RowKey"].startswith(f"{SUM}|")]
                hours = [row for row in rows if row not in old][: MAX_ROWS - 1]
                if hours and _replace_by_sum(table, old, hours):
                    rolled_up += len(hours)
                elif not hours and old[0]["Until"] < forget:
                    table.delete_entity(old[0])
        first.raise_it()
        return rolled_up

    def delete_before(self, day: date, deadline: Deadline) -> int:
        return self._days.delete_before(day, deadline)

    def _sums(self, wanted: str = "", **values: str) -> Mapping[SubscriptionKey, Counts]:
        sums: dict[SubscriptionKey, dict[Series, Sum]] = defaultdict(dict)
        for row in self._hours(wanted, **values):
            add(sums[_key(row)], counts_of_text(row["Counts"]))
        return sums

    def _hours(self, wanted: str, **values: str) -> list[Any]:
        table = self._account.table(TOTALS)
        return rows_of(table, f"PartitionKey eq @hours{wanted}", hours=HOURS, **values)


def _replace_by_sum(table: TableClient, old: Sequence[Row], hours: Sequence[Row]) -> bool:
    """Replace rows by their sum, all at once; return ``False`` if another process was first."""
    from azure.core import MatchConditions
    from azure.data.tables import UpdateMode

    until = max(row["Until"] for row in [*old, *hours])
    counts = total_of(counts_of_text(row["Counts"]) for row in [*old, *hours])
    entity = hours_entity(SUM, _key(hours[0]), until, counts)
    operations: list[Any] = [("delete", row) for row in hours]
    if old:
        condition = {
            "mode": UpdateMode.REPLACE,
            "etag": old[0].metadata["etag"],  # type: ignore[attr-defined]
            "match_condition": MatchConditions.IfNotModified,
        }
        operations.append(("update", entity, condition))
    else:
        operations.append(("create", entity))
    try:
        table.submit_transaction(operations)
    except HttpResponseError as error:
        if has_code(error, *_CHANGED):
            return False
        raise
    return True


def _key(row: Row) -> SubscriptionKey:
    return SubscriptionKey(row["Topic"], row["Subscription"])
