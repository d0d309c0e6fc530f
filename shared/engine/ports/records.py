"""What is kept of the past: attempts, and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Protocol

from shared.delivery.attempt_record import AttemptRecord
from shared.metrics import CountRow, Counts, Metric


class AttemptLog(Protocol):
    """Attempts that were made, by the day on which their event was published."""

    def write(self, records: Sequence[AttemptRecord]) -> None:
        """
        Store *records*, over what is there of the same attempt; quick, also to give up.

        Raises:
            StorageUnavailable: some may be stored.
        """

    def drop_before(self, day: date, deadline: datetime) -> int:
        """
        Forget all days before *day*, until *deadline*; return how many there were.

        Raises:
            StorageUnavailable: some may be forgotten.
        """


class Metrics(Protocol):
    """Counts what happens; keeping the counts is done in the background and disturbs nobody."""

    def count(
        self,
        metric: Metric,
        topic: str,
        subscription: str = "",
        *,
        by: float = 1,
        **dimensions: str,
    ) -> None:
        """Add *by*, in whatever thread; never raises. Without a *subscription*: the topic's own."""


class CountSink(Protocol):
    """Keeps what processes have counted."""

    def write(self, rows: Sequence[CountRow]) -> None:
        """
        Store *rows*, over what is there of the same process and span; quick, also to give up.

        Raises:
            StorageUnavailable: some may be stored.
        """


class CountReader(Protocol):
    """What all processes have counted. Names are taken whatever their case."""

    def minutes(
        self, topic: str, subscription: str, since: datetime, until: datetime
    ) -> Iterator[tuple[datetime, Counts]]:
        """
        Yield counts with their minute, from *since* to before *until*, by time; some minutes often.

        Raises:
            StorageUnavailable: storage did not answer.
        """

    def totals(self) -> Mapping[tuple[str, str], Counts]:
        """
        Return all that was ever counted, by topic and subscription: it never becomes less.

        Raises:
            StorageUnavailable: storage did not answer.
        """


class CountKeeping(Protocol):
    """What keeps counts from becoming too many."""

    def add_up(self, before: datetime, forget: datetime) -> int:
        """
        Make one total of the hours before *before*; return how many rows that made needless.

        A total that has had no hour since *forget* is forgotten.

        Raises:
            StorageUnavailable: some may be added up, none is twice.
        """

    def drop_before(self, day: date, deadline: datetime) -> int:
        """
        Forget the minutes of all days before *day*, until *deadline*; return how many days.

        Raises:
            StorageUnavailable: some may be forgotten.
        """
