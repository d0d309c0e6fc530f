"""
Commits together what is written at the same time: what arrives during a commit is in the next one.

One thread commits all writes. No answer is given before the commit has succeeded.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty
from typing import Any, NamedTuple, Protocol, TypeVar

from shared.adapters.sql.database import PLAIN, Write, WriteOptions, ignore
from shared.engine.ports import Channel, Threads
from shared.errors import StorageUnavailable

T = TypeVar("T")
MOST_TOGETHER = 256  # writes: the first of a group waits for the last


class GroupWrite(NamedTuple):
    """A write, and what its database has to know of it."""

    call: Write[Any]
    options: WriteOptions


class WriteResult(NamedTuple):
    """What a write has returned, or its error."""

    value: Any = None
    error: BaseException | None = None


class Committer(Protocol):
    """Commits groups, on one thread."""

    def commit(self, group: Sequence[GroupWrite]) -> Sequence[WriteResult]:
        """Return the results of all, once they are stored for good; an error: it may be stored."""

    def tidy(self) -> None:
        """Do what is due after a commit, while nobody waits."""

    def close(self) -> None:
        """End; nothing is under way."""


class _Call(NamedTuple):
    write: GroupWrite
    future: Future[Any] | asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop | None = None  # of a future that belongs to one
    then: Callable[[Any], object] = ignore  # called there, with ``None`` after a failure


class GroupWriter:
    """Has writes committed by *committer*, from any thread, until `close`."""

    def __init__(self, committer: Committer, threads: Threads) -> None:
        self._committer = committer
        self._result = threads.result
        self._calls: Channel[_Call | None] = threads.channel()
        self._closed = False
        self._ended: Future[None] = Future()
        threads.begin(self._run)

    def write(self, write: Write[T], options: WriteOptions = PLAIN) -> T:
        """
        Return what *write* returns, once it is committed.

        Raises:
            StorageUnavailable: the commit has failed.
        """
        result: Future[T] = Future()
        self._put(_Call(GroupWrite(write, options), result))
        return self._result(result)

    def write_on_loop(
        self, write: Write[T], options: WriteOptions, then: Callable[[T | None], object]
    ) -> asyncio.Future[T]:
        """
        Do as `write`, on the event loop; *then* hears of the end whoever is cancelled.

        Raises:
            StorageUnavailable: it is closed; *then* is not called.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        self._put(_Call(GroupWrite(write, options), result, loop, then))
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
            _tell(group, self._committer.commit([each.write for each in group]))
            del call, group  # Nobody's results are kept while nothing arrives.
            self._committer.tidy()
        left = list(self._arrived())
        _tell(left, [WriteResult(error=StorageUnavailable()) for _ in left])
        self._committer.close()

    def _arrived(self) -> Iterator[_Call]:
        with suppress(Empty):
            for _ in range(MOST_TOGETHER - 1):
                if (call := self._calls.get_nowait()) is None:
                    self._calls.put(None)  # the end, for the next look
                    return
                yield call


def unavailable(cause: BaseException) -> StorageUnavailable:
    """Return an error that *cause* has caused."""
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
