"""
Commits together what is written at the same time: what arrives during a commit is in the next one.

One thread runs all writes on one connection. No answer is given before the commit has succeeded.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty
from typing import Any, NamedTuple, Protocol, TypeVar

from shared import telemetry
from shared.adapters.sql.database import Write, WriteTransaction
from shared.engine.ports import Channel, Threads
from shared.errors import StorageUnavailable

T = TypeVar("T")
MOST_TOGETHER = 256  # writes: the first of a group waits for the last


class Broken(Exception):
    """The connection has failed: what it has written since the last commit may not be stored."""


class GroupConnection(WriteTransaction, Protocol):
    """A connection for one thread. Each of its methods may raise `Broken`."""

    @property
    def changes(self) -> int:
        """How many rows were changed so far; what is undone counts as well."""

    def begin(self) -> None:
        """Begin a transaction; what a failure has left is made safe first."""

    def commit(self) -> None:
        """Store the transaction for good."""

    def rollback(self) -> None:
        """Undo the transaction, if there is one. Never raises."""

    def savepoint(self) -> None:
        """Begin a part of the transaction that can be undone."""

    def release(self) -> None:
        """Keep the part."""

    def undo(self) -> None:
        """Undo the part."""

    def tidy(self) -> None:
        """Do what is due after a commit, while nobody waits."""

    def close(self) -> None:
        """End; nothing is under way."""


class WriteResult(NamedTuple):
    """What a write has returned, or its error."""

    value: Any = None
    error: BaseException | None = None


class _Call(NamedTuple):
    write: Write[Any]
    future: Future[Any] | asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop | None = None  # of a future that belongs to one
    then: Callable[[Any], object] = lambda _: None  # called there, with ``None`` after a failure


class GroupWriter:
    """Runs writes on *connection*, from any thread, until `close`."""

    def __init__(self, connection: GroupConnection, threads: Threads) -> None:
        self._connection = connection
        self._result = threads.result
        self._calls: Channel[_Call | None] = threads.channel()
        self._closed = False
        self._ended: Future[None] = Future()
        threads.begin(self._run)

    def write(self, write: Write[T]) -> T:
        """
        Return what *write* returns, once it is committed.

        Raises:
            StorageUnavailable: the commit has failed.
        """
        result: Future[T] = Future()
        self._put(_Call(write, result))
        return self._result(result)

    def write_on_loop(
        self, write: Write[T], then: Callable[[T | None], object]
    ) -> asyncio.Future[T]:
        """
        Do as `write`, on the event loop; *then* hears of the end whoever is cancelled.

        Raises:
            StorageUnavailable: it is closed; *then* is not called.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        self._put(_Call(write, result, loop, then))
        return result

    def close(self) -> None:
        """Commit what was asked for, and end."""
        self._closed = True
        self._calls.put(None)
        self._result(self._ended)

    def _put(self, call: _Call) -> None:
        if self._closed:
            raise StorageUnavailable
        self._calls.put(call)

    def _run(self) -> None:
        try:
            self._run_all()
        finally:
            self._ended.set_result(None)

    def _run_all(self) -> None:
        while call := self._calls.get():
            group = [call, *self._arrived()]
            _tell(group, self._commit([each.write for each in group]))
            del call, group  # Nobody's results are kept while nothing arrives.
            self._connection.tidy()
        left = list(self._arrived())
        _tell(left, [WriteResult(error=StorageUnavailable()) for _ in left])
        self._connection.close()

    def _arrived(self) -> Iterator[_Call]:
        with suppress(Empty):
            for _ in range(MOST_TOGETHER - 1):
                if (call := self._calls.get_nowait()) is None:
                    self._calls.put(None)  # the end, for the next look
                    return
                yield call

    def _commit(self, writes: Sequence[Write[Any]]) -> Sequence[WriteResult]:
        try:
            self._connection.begin()
            results = self._together(writes)
            if results is None:
                self._connection.rollback()
                self._connection.begin()
                results = [self._apart(write) for write in writes]
            self._connection.commit()
        except Exception as error:  # noqa: BLE001 - everybody hears of it
            self._connection.rollback()
            telemetry.error("storage.failed", error=type(error).__name__, detail=str(error))
            return [WriteResult(error=_failed(error)) for _ in writes]
        return results

    def _together(self, writes: Sequence[Write[Any]]) -> Sequence[WriteResult] | None:
        """Run all writes; ``None``: one was refused that has written something."""
        results = []
        for write in writes:
            before = self._connection.changes
            results.append(self._outcome(write))
            if results[-1].error and self._connection.changes != before:
                return None
        return results

    def _apart(self, write: Write[Any]) -> WriteResult:
        """Run a write in a savepoint; what a refused one has written is undone."""
        self._connection.savepoint()
        result = self._outcome(write)
        if result.error:
            self._connection.undo()
        else:
            self._connection.release()
        return result

    def _outcome(self, write: Write[Any]) -> WriteResult:
        try:
            return WriteResult(write(self._connection))
        except Broken:
            raise
        except Exception as error:  # noqa: BLE001 - its caller gets it
            return WriteResult(error=error)


def _failed(cause: Exception) -> StorageUnavailable:
    failed = StorageUnavailable()
    failed.__cause__ = cause
    return failed


def _tell(group: Sequence[_Call], results: Sequence[WriteResult]) -> None:
    """Give each caller its result: those of an event loop all at once."""
    of_loops = defaultdict(list)
    for call, result in zip(group, results, strict=True):
        if call.loop:
            of_loops[call.loop].append((call, result))
        else:
            _set(call.future, result)
    for loop, ended in of_loops.items():
        with suppress(RuntimeError):  # The loop has been closed: nobody waits.
            loop.call_soon_threadsafe(_set_all, ended)


def _set_all(ended: Sequence[tuple[_Call, WriteResult]]) -> None:
    for call, result in ended:
        call.then(result.value)
        if not call.future.done():  # cancelled
            _set(call.future, result)


def _set(future: Future[Any] | asyncio.Future[Any], result: WriteResult) -> None:
    if result.error:
        future.set_exception(result.error)
    else:
        future.set_result(result.value)
