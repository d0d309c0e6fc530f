"""Caches values by key: each is read by one thread at a time and kept for a limited time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from shared import telemetry
from shared.engine.ports import Resource, Table, Threads
from shared.errors import StorageUnavailable

MAX_ENTRIES = 10_000
MOST_FAILURES = 1_000
PERIODS = 2  # for which a value serves at most: the time for which it is kept, and as long again
FAILED_FOR = 2.0  # seconds in which a read that failed is not repeated
LOG_ONCE_PER = 60.0  # seconds: what can't be read
MOMENT = 0.1  # seconds in which whoever asked `has` calls `get`
AFTER_READ = 1.0  # seconds for which a value is kept after its read, so that who waited may use it

V = TypeVar("V")


def _never(_: object) -> bool:
    return False


def _always(_: object) -> bool:
    return True


class _Reading(Future[V]):
    """A read, under way or done; *began* is in seconds of the cache's clock."""

    def __init__(self, began: float) -> None:
        super().__init__()
        self.began = began


class _Entry(NamedTuple, Generic[V]):
    value: V
    # By the cache's clock:
    due: float  # when it expires
    ends: float  # when it serves nobody any more


class _Failure(NamedTuple):
    """Why storage did not answer a read, and until when by the cache's clock that counts."""

    error: StorageUnavailable
    until: float


class Cache(Generic[V]):
    """
    The latest values, by key. *keep_seconds* returns how long a value is kept, *serve_seconds* how
    long it may serve at all: `PERIODS` times as long. Both count from the beginning of the read,
    since storage may have changed just after; a read that takes so long that less is left gives its
    value `AFTER_READ`, or its whole time if that is shorter.

    While one thread reads a key, the others get its expired value if they accept it and it may
    still serve; else they wait and share the outcome. The same value serves, as long as it may,
    where the read fails with `StorageUnavailable`. The read is not repeated for `FAILED_FOR`: else
    each who comes would wait for storage in turn. No other error is kept. Beyond *most*, which is
    compared with the sum of their sizes, the least recently used values go.
    """

    def __init__(
        self,
        threads: Threads,
        keep_seconds: Callable[[V], float],
        *,
        serve_seconds: Callable[[V], float] | None = None,
        most: int = MAX_ENTRIES,
        size: Callable[[V], int] = lambda _: 1,
    ) -> None:
        self._threads = threads
        self._monotonic = threads.monotonic
        self._keep_seconds = keep_seconds
        self._serve_seconds = serve_seconds or (lambda value: PERIODS * keep_seconds(value))
        self._most = most
        self._size = size
        self._lock = threads.lock()
        self._held = 0  # the sum of sizes
        self._entries: OrderedDict[str, _Entry[V]] = OrderedDict()
        self._readings: dict[str, _Reading[V]] = {}
        self._failures: OrderedDict[str, _Failure] = OrderedDict()

    def get(
        self,
        key: str,
        read: Callable[[], V],
        accepts_expired: Callable[[V], bool] = _never,
    ) -> V:
        """Return the value of *key*, read in this thread if need be. Raises what *read* raises."""
        with self._lock:
            if entry := self._at_once(key, accepts_expired):
                return entry.value
            reading = self._readings.get(key)
            is_first = reading is None
            reading = reading or self._begin(key)
        if is_first:
            self._read(key, read, reading)
        try:
            return self._threads.result(reading)
        except StorageUnavailable:
            with self._lock:
                if entry := self._serving(key, accepts_expired):
                    return entry.value
            raise

    def has(self, key: str) -> bool:
        """Tell whether `get` would return a value without a read, now and in a moment."""
        with self._lock:
            entry = self._entries.get(key)
            return entry is not None and self._monotonic() + MOMENT < entry.due

    def known(self, key: str) -> V | None:
        """Return the value of *key* without a read, though it may have expired."""
        with self._lock:
            entry = self._serving(key, _always)
            return entry.value if entry else None

    def get_within(self, key: str, read: Callable[[], V], seconds: float) -> V | None:
        """
        Return the value of *key*, read on a thread of its own if need be.

        ``None``: the read began *seconds* ago and has not ended.

        Raises:
            RuntimeError: no thread can be had.
            Exception: what *read* raises.
        """
        with self._lock:
            if entry := self._at_once(key, _never):
                return entry.value
            reading = self._readings.get(key)
            is_first = reading is None
            reading = reading or self._begin(key)
        if is_first:
            try:
                self._threads.begin(partial(self._read, key, read, reading))
            except RuntimeError as error:
                self._fail(key, reading, error)
        try:
            left = max(0, reading.began + seconds - self._monotonic())
            return self._threads.result(reading, left)
        except TimeoutError:
            return None

    def update(self, key: str, change: Callable[[V], V]) -> None:
        """Change the value of *key*, if there is one; it expires no later."""
        with self._lock:
            if entry := self._entries.get(key):
                self._put(key, entry._replace(value=change(entry.value)))

    def forget(self, key: str) -> None:
        """Drop the value of *key*, and do not keep what is being read: it may be too old."""
        with self._lock:
            self._drop(key)
            self._readings.pop(key, None)
            self._failures.pop(key, None)

    def forget_all(self, prefix: str) -> None:
        """Forget every key that begins with *prefix*."""
        with self._lock:
            keys = [key for key in self._keys() if key.startswith(prefix)]
        for key in keys:
            self.forget(key)

    def _keys(self) -> set[str]:
        return {*self._entries, *self._readings, *self._failures}

    def _at_once(self, key: str, accepts_expired: Callable[[V], bool]) -> _Entry[V] | None:
        """Return what needs no waiting; ``None``: a read is needed. Raises what has just failed."""
        entry = self._entries.get(key)
        if entry and self._monotonic() < entry.due:
            self._entries.move_to_end(key)
            return entry
        failure = self._failures.get(key)
        has_failed = failure is not None and self._monotonic() < failure.until
        if not has_failed and key not in self._readings:
            return None
        entry = self._serving(key, accepts_expired)
        if failure and has_failed and entry is None:
            raise copy(failure.error)  # without the traceback, which grows with each raise
        return entry

    def _serving(self, key: str, accepts_expired: Callable[[V], bool]) -> _Entry[V] | None:
        """Return what serves instead of a read, be it expired."""
        entry = self._entries.get(key)
        if entry and self._monotonic() < entry.ends and accepts_expired(entry.value):
            return entry
        return None

    def _begin(self, key: str) -> _Reading[V]:
        reading = self._readings[key] = _Reading(self._monotonic())
        return reading

    def _read(self, key: str, read: Callable[[], V], reading: _Reading[V]) -> None:
        try:
            value = read()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._fail(key, reading, error)
            return
        due = self._since(reading, self._keep_seconds(value))
        ends = self._since(reading, self._serve_seconds(value))
        self._end(key, reading, _Entry(value, due, ends))
        reading.set_result(value)

    def _fail(self, key: str, reading: _Reading[V], error: BaseException) -> None:
        self._end(key, reading, error)
        reading.set_exception(error)

    def _since(self, reading: _Reading[V], seconds: float) -> float:
        return max(reading.began + seconds, self._monotonic() + min(seconds, AFTER_READ))

    def _end(self, key: str, reading: _Reading[V], outcome: _Entry[V] | BaseException) -> None:
        with self._lock:
            if self._readings.get(key) is not reading:  # forgotten meanwhile
                return
            del self._readings[key]
            self._failures.pop(key, None)
            if isinstance(outcome, _Entry):
                self._put(key, outcome)
            elif isinstance(outcome, StorageUnavailable):
                self._failures[key] = _Failure(copy(outcome), self._monotonic() + FAILED_FOR)
                if len(self._failures) > MOST_FAILURES:
                    self._failures.popitem(last=False)

    def _put(self, key: str, entry: _Entry[V]) -> None:
        self._drop(key)
        self._entries[key] = entry
        self._held += self._size(entry.value)
        while self._held > self._most:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: str) -> None:
        if entry := self._entries.pop(key, None):
            self._held -= self._size(entry.value)


class OncePerMinute:
    """Logs errors, each once a minute."""

    def __init__(self, threads: Threads) -> None:
        self._logged = Cache[None](threads, lambda _: LOG_ONCE_PER)

    def log(self, event: str, of: str, **fields: telemetry.Field) -> None:
        """Log *event*, unless it was logged within a minute about the same, which *of* names."""
        self._logged.get(f"{event}/{of.lower()}", lambda: telemetry.error(event, **fields))

    def log_row(
        self, event: str, table: Table, partition: str, row: Resource, error: Exception
    ) -> None:
        """Log a row that can't be read."""
        self.log(
            event,
            f"{table}/{partition}/{row.name}",
            table=table,
            partition=partition,
            row=row.name,
            error=row.fault or f"{type(error).__name__}: {error}",
        )
