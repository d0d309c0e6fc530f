"""Declares ports to records: attempts, and counts of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple, Protocol

from shared.clock import Deadline
from shared.delivery.attempt_record import AttemptRecord
from shared.metrics import CountRow, Counts, Metric, Sum
from shared.subscriptions.subscription import SubscriptionKey


class AttemptLog(Protocol):
    """Stores attempts by the day on which their event was published."""

    def write(self, records: Sequence[AttemptRecord]) -> None:
        """
        Store *records*, replacing those of the same attempt.

        Raises:
            StorageUnavailable: it failed, or took half a minute; some may be stored.
        """

    def delete_before(self, day: date, deadline: Deadline) -> int:
        """Delete all days before *day*, until *deadline*; return how many."""


class AttemptChoice(NamedTuple):
    """Selects attempts: of an event, made since a time, or of a replay's job; ``None``: of all."""

    event_id: str | None = None
    since: datetime | None = None
    replay_of: str | None = None


ALL_ATTEMPTS = AttemptChoice()


class AttemptReader(Protocol):
    """Reads recorded attempts. Names are case-insensitive."""

    def read(
        self,
        topic: str,
        subscription: str,
        since: datetime,
        chosen: AttemptChoice = ALL_ATTEMPTS,
    ) -> Iterator[Sequence[AttemptRecord]]:
        """
        Yield the records of events published since the hour of *since*: a day at a time, the last
        day first, within a day by hour, event and attempt.

        *chosen* selects among them.
        """


class KeyedCounts(NamedTuple):
    """Counts of one subscription."""

    key: SubscriptionKey
    counts: Counts


class Metrics(Protocol):
    """Counts metrics in memory; a background thread stores the counts."""

    def count(
        self,
        metric: Metric,
        topic: str,
        subscription: str = "",
        *,
        by: float | Sum = 1,
        **dimensions: str,
    ) -> None:
        """
        Add *by*, a value or several, from any thread; never raises.

        Without *subscription*: a count of the topic.
        """


class CountSink(Protocol):
    """Stores the counts of processes."""

    def write(self, rows: Sequence[CountRow]) -> None:
        """Store *rows*, replacing those of the same process and time span; gives up quickly."""


class CountReader(Protocol):
    """Reads the counts of all processes. Names are case-insensitive."""

    def minutes(
        self, topic: str, subscription: str, since: datetime, until: datetime
    ) -> Iterator[tuple[datetime, Counts]]:
        """
        Yield counts with their minute, ordered by time, *until* excluded; a minute may repeat.
        """

    def hours(self, since: datetime) -> Mapping[SubscriptionKey, Counts]:
        """Return the counts since the hour of *since*, two hours ago at most, as `totals` does."""

    def totals(self) -> Mapping[SubscriptionKey, Counts]:
        """Return the totals of all time by topic and subscription; a total never decreases."""


class MetricRetention(Protocol):
    """Rolls up and deletes old counts."""

    def roll_up(self, before: datetime, forget: datetime, deadline: Deadline) -> int:
        """
        Add the hours before *before* to the totals and delete them; return how many rows.

        Each subscription on its own, until *deadline*; the rest is left for another time.

        A total without any hour since *forget* is deleted.

        Raises:
            StorageUnavailable: some hours may be rolled up, none twice.
        """

    def delete_before(self, day: date, deadline: Deadline) -> int:
        """Delete the minutes of all days before *day*, until *deadline*; return how many days."""
