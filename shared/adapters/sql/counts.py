"""Stores counts: minutes, hours, and the sums of the hours that are over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from shared.adapters.sql.database import (
    MOST_ROWS,
    Database,
    Row,
    WriteTransaction,
    micros,
    moment,
    plain,
    text_of_plain,
)
from shared.adapters.sql.tally import WRITE_COUNTS
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

_SUM = "sum"
_DAY = timedelta(days=1)
_DELETE = (
    "DELETE FROM counts WHERE span = ? AND topic = ? AND subscription = ? AND start = ?"
    " AND instance = ?"
)


class SqlCounts:
    """CountSink, CountReader and MetricRetention."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, rows: Sequence[CountRow]) -> None:
        written = sorted(
            (
                each.span.value,
                *_names(each.topic, each.subscription),
                micros(each.start),
                plain(each.instance),
                text_of_counts(each.counts),
            )
            for each in rows
        )
        if written:
            self._database.write(lambda writing: writing.run_all(WRITE_COUNTS, written))

    def minutes(
        self, topic: str, subscription: str, since: datetime, until: datetime
    ) -> Iterator[tuple[datetime, Counts]]:
        """Read a day at a time: a month has more than one reading should wait for."""
        while since < until:
            end = min(until, since + _DAY)
            parameters = Span.MINUTE, *_names(topic, subscription), micros(since), micros(end)
            found = self._database.read(
                lambda reading, parameters=parameters: reading.rows(  # type: ignore[misc]
                    "SELECT start, counts FROM counts WHERE span = ? AND topic = ?"
                    " AND subscription = ? AND start >= ? AND start < ? ORDER BY start",
                    *parameters,
                )
            )
            for start, counts in found:
                yield moment(start), counts_of_text(counts)
            since = end

    def hours(self, since: datetime) -> Mapping[SubscriptionKey, Counts]:
        first = since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return self._sums("span = 'hour' AND start >= ?", micros(first))

    def totals(self) -> Mapping[SubscriptionKey, Counts]:
        return self._sums("span IN ('hour', 'sum')")

    def roll_up(self, before: datetime, forget: datetime, deadline: Deadline) -> int:
        names = self._database.read(
            lambda reading: reading.rows(
                # By IN, so that no minute is read.
                "SELECT DISTINCT topic, subscription FROM counts WHERE span IN ('hour', 'sum')"
                " AND ((span = 'hour' AND start < ?) OR (span = 'sum' AND start < ?))",
                *(micros(before), micros(forget)),
            )
        )
        first, rolled_up = FirstFault(), 0
        for topic, subscription in names:
            if deadline.has_passed:
                break
            with first:
                rolled_up += self._roll_up(topic, subscription, before, forget)
        first.raise_it()
        return rolled_up

    def _roll_up(self, topic: str, subscription: str, before: datetime, forget: datetime) -> int:
        """Replace the hours of a subscription by their sum, in one transaction."""

        def write(writing: WriteTransaction) -> int:
            rows = writing.rows(
                "SELECT span, topic, subscription, start, instance, counts FROM counts"
                " WHERE span IN ('hour', 'sum') AND topic = ? AND subscription = ?"
                " AND (span = 'sum' OR start < ?) ORDER BY span DESC, start LIMIT ?",
                *(topic, subscription, micros(before), MOST_ROWS),
            )
            hours = [row for row in rows if row[0] != _SUM]
            if hours:
                writing.run_all(_DELETE, [row[:5] for row in rows])
                counts = total_of(counts_of_text(row[5]) for row in rows)
                until = max(row[3] for row in rows)
                text = text_of_counts(counts)
                writing.run(WRITE_COUNTS, *(_SUM, topic, subscription, until, "", text))
            elif rows and rows[0][3] < micros(forget):
                writing.run(_DELETE, *rows[0][:5])
            return len(hours)

        return self._database.write(write)

    def delete_before(self, day: date, deadline: Deadline) -> int:
        until = micros(datetime(day.year, day.month, day.day, tzinfo=UTC))
        days: set[date] = set()
        while not deadline.has_passed:
            deleted = self._database.write(
                lambda writing: writing.rows(
                    "DELETE FROM counts WHERE span = 'minute' AND (topic, subscription, start,"
                    " instance) IN (SELECT topic, subscription, start, instance FROM counts"
                    " WHERE span = 'minute' AND start < ? ORDER BY start LIMIT ?) RETURNING start",
                    *(until, MOST_ROWS),
                )
            )
            days.update(moment(start).date() for (start,) in deleted)
            if not deleted:
                break
        return len(days)

    def _sums(self, wanted: str, *values: int) -> Mapping[SubscriptionKey, Counts]:
        found: list[Row] = self._database.read(
            lambda reading: reading.rows(
                f"SELECT topic, subscription, counts FROM counts WHERE {wanted}", *values
            )
        )
        sums: dict[SubscriptionKey, dict[Series, Sum]] = defaultdict(dict)
        for topic, subscription, counts in found:
            key = SubscriptionKey(text_of_plain(topic), text_of_plain(subscription))
            add(sums[key], counts_of_text(counts))
        return sums


def _names(topic: str, subscription: str) -> tuple[str, str]:
    return plain(topic.lower()), plain(subscription.lower())
