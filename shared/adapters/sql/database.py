"""
Declares what the parts of the store need of a database.

Statements are written for SQLite and PostgreSQL: parameters are ``?``, times are microseconds
since 1970, and texts that others choose are written by `plain`, since PostgreSQL takes neither
U+0000 nor a lone surrogate.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, Protocol, TypeVar

from shared.adapters.sql.dialects import Dialect
from shared.engine.ports.measures import StoreMeasure
from shared.errors import InvalidSettings
from shared.metrics import Counts
from shared.subscriptions.subscription import SubscriptionKey

T = TypeVar("T")
CountedIn = tuple[SubscriptionKey, int]  # whose, and in which minute since 1970
Row = tuple[Any, ...]

MOST_ROWS = 1000  # that one statement changes: others wait for it
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def ignore(_: object) -> None:
    pass


class StoreRefused(InvalidSettings):
    """The store can't be used as it is; the message says what to do."""


class ReadTransaction(Protocol):
    """A transaction that reads."""

    @property
    def dialect(self) -> Dialect:
        """What its database says in words of its own."""

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        """Run *statement* and return its rows."""


class WriteTransaction(ReadTransaction, Protocol):
    """A transaction that writes."""

    @property
    def is_repeat(self) -> bool:
        """Whether what is stored may be stored already, under the same numbers."""

    def send(self, statement: str, *parameters: object) -> None:
        """Run *statement*, whose result nobody waits for."""

    def run(self, statement: str, *parameters: object) -> int:
        """Run *statement* and return how many rows it has changed."""

    def run_all(self, statement: str, parameters: Iterable[Row]) -> None:
        """Run *statement* with each of *parameters*."""

    def count(self, counts: Mapping[CountedIn, Counts]) -> None:
        """Add to counts, with the transaction: the last thing that a write does."""


Write = Callable[[WriteTransaction], T]


class Catalogue(IntEnum):
    """
    How a transaction holds topics and subscriptions.

    Who judges by them shares them with others that do, and who changes them has them alone.
    """

    NONE = 0
    SHARED = 1
    EXCLUSIVE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """
    What a database has to know of a write before it begins.

    What *grows* it is refused while too little space is free, where that is known (SQLite).
    *births*: the numbers of all messages that are stored, if all are in hand at once; then a commit
    of unknown outcome can be repeated. *claims*: the numbers of those that are taken in hand
    otherwise, which the write may fill in; they stay this process's then. The *catalogue* is held
    until the commit.
    """

    grows: bool = False
    births: Collection[int] = ()
    claims: Collection[int] = ()
    catalogue: Catalogue = Catalogue.NONE


PLAIN = WriteOptions()


class Database(Protocol):
    """
    Runs transactions.

    A *write* gets a transaction that others share. It may be called again if one of these fails,
    so it changes nothing else but what each call sets anew. An error that it raises is its
    caller's alone, and what it has written is undone.
    """

    @property
    def run(self) -> int:
        """What stands with messages that this process takes in hand; above 0."""

    @property
    def has_lease(self) -> bool:
        """Whether nobody else may have what is in hand; else no push may begin."""

    def run_of(self, taken: int) -> int:
        """Return what stands now with messages that were taken as *taken*; -1: they are lost."""

    def write(self, write: Write[T], options: WriteOptions = PLAIN) -> T:
        """
        Return what *write* returns, once it is stored for good.

        Raises:
            StorageUnavailable: it may or may not be stored.
        """

    async def write_on_loop(
        self,
        write: Write[T],
        options: WriteOptions = PLAIN,
        then: Callable[[T | None], object] = ignore,
    ) -> T:
        """
        Do as `write`, on the event loop.

        *then* is called there with what *write* returned, or ``None`` if it is not stored, though
        the caller be cancelled.
        """

    def read(self, read: Callable[[ReadTransaction], T]) -> T:
        """
        Return what *read* returns; it sees one moment, and is short.

        Raises:
            StorageUnavailable: the database can't be read.
        """

    @property
    def fault(self) -> str:
        """Why nothing may be stored now; empty: the last transaction was."""

    @property
    def commit_time(self) -> tuple[int, float]:
        """How many commits there were, and how many seconds they took, their syncs included."""

    def measures(self) -> list[StoreMeasure]:
        """Return the database's own figures, but for commits."""

    def close(self) -> None:
        """Store what was asked for, and end."""


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def new_id() -> str:
    """Return 32 hexadecimal digits that nothing else has."""
    return uuid.uuid4().hex


def plain(text: str) -> str:
    """Return *text* in ASCII: each text in one way only, so that it can be compared."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text  # as most are: `json` would take three times as long
    return json.dumps(text)[1:-1]


def text_of_plain(text: str) -> str:
    """Return what `plain` was given."""
    return str(json.loads(f'"{text}"'))


def marks(count: int) -> str:
    """Return the parameters of a list of *count* values."""
    return ", ".join("?" * count)
