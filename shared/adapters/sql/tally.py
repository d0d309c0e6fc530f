"""Counts that are stored in the transaction of what they count, each row once a transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from shared.adapters.sql.database import (
    CountedIn,
    ReadTransaction,
    Row,
    WriteTransaction,
    plain,
)
from shared.clock import Clock
from shared.metrics import (
    Counts,
    Metric,
    Series,
    Span,
    Sum,
    add,
    counts_of_text,
    text_of_counts,
)
from shared.subscriptions.subscription import SubscriptionKey

_MINUTE = 60_000_000  # microseconds
#: Times that a row is written; then another one goes on. While a snapshot is held, each of them
#: leaves a version that PostgreSQL can't remove, and passes over at the next.
MOST_WRITES = 4096
WRITE_COUNTS = (
    "INSERT INTO counts (span, topic, subscription, start, instance, counts)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (span, topic, subscription, start, instance)"
    " DO UPDATE SET counts = excluded.counts"
)


class WaitingCounts:
    """Metrics that wait for a transaction, by `CountedIn`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.counts: dict[CountedIn, dict[Series, Sum]] = {}

    def count(
        self,
        metric: Metric,
        topic: str,
        subscription: str = "",
        *,
        by: float | Sum = 1,
        **dimensions: str,
    ) -> None:
        named = tuple(sorted((n, str(v)) for n, v in dimensions.items())) if dimensions else ()
        sum_ = by if isinstance(by, Sum) else Sum(by, 1, by, by)
        self.add(SubscriptionKey(topic, subscription), {Series(metric, named): sum_})

    def add(self, key: SubscriptionKey, counts: Counts) -> None:
        """Add counts of now."""
        minute = int(self._clock.now().timestamp()) // 60
        add(self.counts.setdefault((key, minute), {}), counts)

    def of(self, keys: Collection[SubscriptionKey]) -> WaitingCounts:
        """Return a copy of what was counted of some subscriptions."""
        found = WaitingCounts(self._clock)
        found.counts = {each: {**of} for each, of in self.counts.items() if each[0] in keys}
        return found

    def forget(self, keys: Collection[SubscriptionKey]) -> None:
        """Forget what was counted of some subscriptions."""
        self.counts = {each: of for each, of in self.counts.items() if each[0] not in keys}


@dataclass(slots=True)
class _OwnRow:
    """A row that nobody else writes, and what it has; ``None``: that is stored alone."""

    part: int = 0  # which of those that go on
    counts: dict[Series, Sum] | None = None
    writes: int = 0


class CountedRows:
    """
    Adds up what the writes of a transaction count, and writes it as rows of *instance*'s own.

    So it knows what they have, but in a new minute and after a failure, when it reads them.
    """

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._added: dict[CountedIn, dict[Series, Sum]] = {}  # in the transaction under way
        self._minute = 0
        self._own: dict[Row, _OwnRow] = {}

    def add(self, counts: Mapping[CountedIn, Counts]) -> None:
        """Add to what the transaction under way writes."""
        for key, of in counts.items():
            add(self._added.setdefault(key, {}), of)

    def write(self, writing: WriteTransaction) -> None:
        """Write what was added: the last of a transaction."""
        if not self._added:
            return
        if (minute := max(minute for _, minute in self._added)) != self._minute:
            self._minute = minute
            # An hour's row of many writes goes on as another one.
            self._own = {
                row: _OwnRow(own.part, writes=own.writes)
                for row, own in self._own.items()
                if row[0] == Span.HOUR and row[3] == _hour_of(minute)
            }
        changed: dict[Row, _OwnRow] = {}
        for (key, minute), counts in self._added.items():
            for row in _rows(key, minute):
                own = self._own.setdefault(row, _OwnRow())
                if own.writes >= MOST_WRITES:
                    own = self._own[row] = _OwnRow(own.part + 1)
                if own.counts is None:
                    own.counts = self._stored(writing, row, self._of(own))
                add(own.counts, counts)
                changed[row] = own
        self._added = {}
        for own in changed.values():
            own.writes += 1
        texts = (
            (*row, self._of(own), text_of_counts(own.counts or {})) for row, own in changed.items()
        )
        writing.run_all(WRITE_COUNTS, texts)

    def forget(self) -> None:
        """Forget what was added since the last commit, and what the rows have."""
        self._added = {}
        for own in self._own.values():
            own.counts = None

    def _of(self, own: _OwnRow) -> str:
        return f"{self._instance}.{own.part}" if own.part else self._instance

    @staticmethod
    def _stored(reading: ReadTransaction, row: Row, instance: str) -> dict[Series, Sum]:
        found = reading.rows(
            "SELECT counts FROM counts WHERE span = ? AND topic = ? AND subscription = ?"
            " AND start = ? AND instance = ?",
            *(*row, instance),
        )
        return counts_of_text(found[0][0]) if found else {}


def _hour_of(minute: int) -> int:
    return minute // 60 * 60 * _MINUTE


@lru_cache
def _rows(key: SubscriptionKey, minute: int) -> Sequence[Row]:
    """Return the rows to which a minute of a subscription counts, as `CountRow` describes them."""
    topic, subscription = map(plain, key.folded)
    start, hour = minute * _MINUTE, _hour_of(minute)
    return (
        (Span.MINUTE.value, topic, subscription, start),
        (Span.MINUTE.value, topic, "", start),
        (Span.HOUR.value, topic, subscription, hour),
    )
