"""Caches values by key: each is read by one thread at a time and kept for a limited time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, NamedTuple, TypeVar

from shared import telemetry
from shared.engine.ports import Resource, Table
from shared.errors import StorageUnavailable

MAX_ENTRIES = 10_000
LOG_ONCE_PER = 60.0  # seconds: a row that can't be read
MOMENT = 0.1  # seconds

V = TypeVar("V")


class _Reading(Future[V]):
    """A read, under way or done; *began* is in seconds of the cache's clock."""

    def __init__(self, began: float) -> None:
        super().__init__()
        self.began = began


class _Entry(NamedTuple, Generic[V]):
    value: V
    due: float  # when the cache's clock says so, it expires


class Cache(Generic[V]):
    """
    The latest values, by key. *keep_seconds* returns how long a value is kept; *monotonic* is a
    clock in seconds.

    While one thread reads a key, the others get its expired value if they accept it; else they wait
    and share the outcome. A read that fails is not kept. Where it fails with `StorageUnavailable`,
    an expired value that is accepted is kept once more. Beyond *most*, which is compared with the
    sum of their sizes, the least recently used values go.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        keep_seconds: Callable[[V], float],
        *,
        most: int = MAX_ENTRIES,
        size: Callable[[V], int] = lambda _: 1,
    ) -> None:
        self._monotonic = monotonic
        self._keep_seconds = keep_seconds
        self._most = most
        self._size = size
        self._lock = threading.Lock()
        self._held = 0  # the sum of sizes
        self._entries: OrderedDict[str, _Entry[V]] = OrderedDict()
        self._readings: dict[str, _Reading[V]] = {}

    def get(
        self,
        key: str,
        read: Callable[[], V],
        accepts_expired: Callable[[V], bool] = lambda _: False,
    ) -> V:
        """Return the value of *key*, read in this thread if need be. Raises what *read* raises."""
        with self._lock:
            entry = self._entries.get(key)
            if entry and self._is_current(key, entry):
                return entry.value
            fallback = entry if entry and accepts_expired(entry.value) else None
            reading = self._readings.get(key)
            if reading and fallback:
                return fallback.value
            is_first = reading is None
            reading = reading or self._begin(key)
        if is_first:
            self._read(key, read, reading, fallback)
        return reading.result()

    def has(self, key: str) -> bool:
        """Tell whether `get` would return a value without a read, now and in a moment."""
        with self._lock:
            entry = self._entries.get(key)
            return entry is not None and self._monotonic() + MOMENT < entry.due

    def known(self, key: str) -> V | None:
        """Return the value of *key*, however old, without a read."""
        with self._lock:
            entry = self._entries.get(key)
            return entry.value if entry else None

    def get_within(self, key: str, read: Callable[[], V], seconds: float) -> V | None:
        """
        Return the value of *key*, read on a thread of its own if need be.

        ``None``: the read began *seconds* ago and has not ended.

        Raises:
            RuntimeError: no thread can be had.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry and self._is_current(key, entry):
                return entry.value
            reading = self._readings.get(key) or self._start(key, read)
        try:
            return reading.result(max(0, reading.began + seconds - self._monotonic()))
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

    def forget_all(self, prefix: str) -> None:
        """Forget every key that begins with *prefix*."""
        with self._lock:
            keys = [key for key in (*self._entries, *self._readings) if key.startswith(prefix)]
        for key in keys:
            self.forget(key)

    def _is_current(self, key: str, entry: _Entry[V]) -> bool:
        if self._monotonic() >= entry.due:
            return False
        self._entries.move_to_end(key)
        return True

    def _begin(self, key: str) -> _Reading[V]:
        reading = self._readings[key] = _Reading(self._monotonic())
        return reading

    def _start(self, key: str, read: Callable[[], V]) -> _Reading[V]:
        reading = self._begin(key)
        arguments = (key, read, reading, None)
        try:
            threading.Thread(target=self._read, args=arguments, daemon=True).start()
        except RuntimeError:
            del self._readings[key]
            raise
        return reading

    def _read(
        self,
        key: str,
        read: Callable[[], V],
        reading: _Reading[V],
        fallback: _Entry[V] | None,
    ) -> None:
        try:
            value = read()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            if fallback is None or not isinstance(error, StorageUnavailable):
                self._end(key, reading, None)
                reading.set_exception(error)
                return
            value = fallback.value
        self._end(key, reading, _Entry(value, self._monotonic() + self._keep_seconds(value)))
        reading.set_result(value)

    def _end(self, key: str, reading: _Reading[V], entry: _Entry[V] | None) -> None:
        with self._lock:
            if self._readings.get(key) is not reading:  # forgotten meanwhile
                return
            del self._readings[key]
            if entry:
                self._put(key, entry)

    def _put(self, key: str, entry: _Entry[V]) -> None:
        self._drop(key)
        self._entries[key] = entry
        self._held += self._size(entry.value)
        while self._held > self._most:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: str) -> None:
        if entry := self._entries.pop(key, None):
            self._held -= self._size(entry.value)


class UnreadableRows:
    """Logs rows that can't be read, each once a minute by *monotonic*."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._logged = Cache[None](monotonic, lambda _: LOG_ONCE_PER)

    def log_row(
        self, event: str, table: Table, partition: str, row: Resource, error: Exception
    ) -> None:
        why = row.fault or f"{type(error).__name__}: {error}"
        self._logged.get(
            f"{table}/{partition.lower()}/{row.name}",
            lambda: telemetry.error(
                event, table=table, partition=partition, row=row.name, error=why
            ),
        )
