"""Counts that are stored in the transaction of what they count, each row once a transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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


class CountedRows:
    """
    Adds up what the writes of a transaction count, and writes it as rows of *instance*'s own.

    So it knows what they have, but in a new minute and after a failure, when it reads them.
    """

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._added: dict[CountedIn, dict[Series, Sum]] = {}  # in the transaction under way
        self._minute = 0
        self._known: dict[Row, dict[Series, Sum]] = {}

    def add(self, counts: Mapping[CountedIn, Counts]) -> None:
        """Add to what the transaction under way writes."""
        for key, of in counts.items():
            add(self._added.setdefault(key, {}), of)

    def write(self, writing: WriteTransaction) -> None:
        """Write what was added: the last of a transaction."""
        if not self._added:
            return
        if (minute := max(minute for _, minute in self._added)) != self._minute:
            self._minute, self._known = minute, {}
        changed: dict[Row, dict[Series, Sum]] = {}
        for (key, minute), counts in self._added.items():
            for row in _rows(key, minute):
                if row not in self._known:
                    self._known[row] = self._stored(writing, row)
                add(self._known[row], counts)
                changed[row] = self._known[row]
        self._added = {}
        texts = ((*row, self._instance, text_of_counts(of)) for row, of in changed.items())
        writing.run_all(WRITE_COUNTS, texts)

    def forget(self) -> None:
        """Forget what was added since the last commit, and what the rows have."""
        self._added, self._known = {}, {}

    def _stored(self, reading: ReadTransaction, row: Row) -> dict[Series, Sum]:
        found = reading.rows(
            "SELECT counts FROM counts WHERE span = ? AND topic = ? AND subscription = ?"
            " AND start = ? AND instance = ?",
            *(*row, self._instance),
        )
        return counts_of_text(found[0][0]) if found else {}


@lru_cache
def _rows(key: SubscriptionKey, minute: int) -> Sequence[Row]:
    """Return the rows to which a minute of a subscription counts, as `CountRow` describes them."""
    topic, subscription = map(plain, key.folded)
    start, hour = minute * _MINUTE, minute // 60 * 60 * _MINUTE
    return (
        (Span.MINUTE.value, topic, subscription, start),
        (Span.MINUTE.value, topic, "", start),
        (Span.HOUR.value, topic, subscription, hour),
    )
