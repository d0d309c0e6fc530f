"""The connections of a process beside its writer's: those that read, and one for what is apart."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import psycopg

from shared import telemetry
from shared.adapters.sql.database import ReadTransaction
from shared.adapters.sql.postgres.connecting import SCHEMA, Connecting
from shared.adapters.sql.postgres.schema import schema_of
from shared.adapters.sql.postgres.transaction import Process, Transaction
from shared.engine.ports import Threads
from shared.errors import StorageUnavailable

T = TypeVar("T")
_READERS = 2
_READER_WAIT = 5.0  # for one that is free


class PostgresConnections:
    """Connections to a *schema*, which are opened when they are needed, until `close`."""

    def __init__(self, connecting: Connecting, schema: str, threads: Threads) -> None:
        self._connecting = connecting
        self._schema = schema
        self._monotonic = threads.monotonic
        self._readers: list[psycopg.Connection[Any]] = []
        self._turns = _Turns(threads, _READERS)
        self._keeper: psycopg.Connection[Any] | None = None  # of `apart`
        self._keeping = threads.lock()
        self._waiting: dict[int, tuple[psycopg.Connection[Any], float]] = {}  # for an answer
        self._lock = threads.lock()
        self.failed = ""  # why something failed last, and what to do

    def read(self, read: Callable[[ReadTransaction], T]) -> T:
        """Do as `Database.read`."""
        with self._reader() as connection:
            return _read(connection, self._schema, read)

    def apart(self, call: Callable[[Transaction], T], process: Process | None = None) -> T:
        """
        Return what *call* returns in a transaction of its own, on a connection beside the writer's.

        Renewals, judgements and partitions share it, one after the other.

        *call* may wait for a lock that others hold only if no *process* is given.

        Raises:
            StorageUnavailable: it may or may not be stored.
        """
        with self._keeping:
            try:
                kept, self._keeper = self._keeper, None
                connection = kept if kept and self._answers(kept) else self._connecting.open()
                with self._watched(connection):
                    transaction = Transaction(connection, self._schema)
                    if process:
                        transaction.begin(process)
                    else:
                        transaction.begin_without()
                    result = call(transaction)
                    transaction.execute("COMMIT")
            except psycopg.Error as error:
                self._log(telemetry.warning, error)
                raise StorageUnavailable from error
            self._keeper = connection
        return result

    def hung(self, limit: float) -> Sequence[psycopg.Connection[Any]]:
        """Return those that have been waiting for an answer since before *limit*."""
        with self._lock:
            return [each for each, at in self._waiting.values() if at < limit]

    def close(self) -> None:
        """End; nothing is under way."""
        for connection in filter(None, [*self._readers, self._keeper]):
            connection.close()

    @contextmanager
    def _reader(self) -> Iterator[psycopg.Connection[Any]]:
        """
        Give a connection that reads, and keep it if nothing fails.

        Raises:
            StorageUnavailable: there is none, or it has failed.
        """
        self._turns.take(_READER_WAIT)
        try:
            connection = self._take_reader()
            with self._watched(connection):
                yield connection
            with self._lock:
                self._readers.append(connection)
        except psycopg.Error as error:
            self._log(telemetry.error, error)
            raise StorageUnavailable from error
        finally:
            self._turns.give_back()

    def _log(self, log: Callable[..., object], error: psycopg.Error) -> None:
        self.failed = self._connecting.said(error)
        log("storage.failed", error=type(error).__name__, detail=Connecting.detail(error))

    @contextmanager
    def _watched(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Have a connection cut that hangs, and close it if something fails."""
        with self._lock:
            self._waiting[id(connection)] = connection, self._monotonic()
        try:
            yield
        except BaseException:
            with suppress(psycopg.Error):
                connection.close()
            raise
        finally:
            with self._lock:
                self._waiting.pop(id(connection), None)

    def _take_reader(self) -> psycopg.Connection[Any]:
        """Return a connection that answers; if the last one does not, no other is waited for."""
        with self._lock:
            connection = self._readers.pop() if self._readers else None
        if connection and self._answers(connection):
            return connection
        with self._lock:
            idle, self._readers = self._readers, []
        for each in idle:
            each.close()
        return self._connecting.open()

    def _answers(self, connection: psycopg.Connection[Any]) -> bool:
        """Tell whether a connection can be used; else it is closed."""
        try:
            with self._watched(connection):
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True


@contextmanager
def reading(connecting: Connecting) -> Iterator[Callable[[Callable[[ReadTransaction], T]], T]]:
    """
    Give what reads the database, whose servers may run, without being one of them.

    Raises:
        StoreRefused: there is no store, or it can't be read, or takes a newer program.
    """
    try:
        with connecting.open() as connection:
            _read(connection, SCHEMA, lambda reading: schema_of(reading, connecting.place))
            yield partial(_read, connection, SCHEMA)
    except psycopg.Error as error:
        raise connecting.refusal(error) from None


def _read(
    connection: psycopg.Connection[Any], schema: str, read: Callable[[ReadTransaction], T]
) -> T:
    transaction = Transaction(connection, schema)
    transaction.begin_reading()
    result = read(transaction)
    transaction.execute("COMMIT")
    return result


class _Turns:
    """Lets so many threads at a time read."""

    def __init__(self, threads: Threads, many: int) -> None:
        self._result, self._lock, self._free = threads.result, threads.lock(), many
        self._waiting: deque[Future[None]] = deque()

    def take(self, seconds: float) -> None:
        """
        Wait for a turn.

        Raises:
            StorageUnavailable: there is none after *seconds*.
        """
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.append(turn)
            self._hand_out()
        try:
            self._result(turn, seconds)
        except TimeoutError:
            with self._lock:
                if turn.done():  # at this very moment
                    return
                self._waiting.remove(turn)
            raise StorageUnavailable("all connections are in use") from None

    def give_back(self) -> None:
        with self._lock:
            self._free += 1
            self._hand_out()

    def _hand_out(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            self._waiting.popleft().set_result(None)
