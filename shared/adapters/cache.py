"""Caches values by key: each is read by one thread at a time and kept for a limited time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from shared import telemetry
from shared.engine.ports import Resource, Table
from shared.errors import StorageUnavailable

MAX_ENTRIES = 10_000
LOG_ONCE_PER = 60.0  # seconds: a row that can't be read
MOMENT = 0.1  # seconds
MAX_THREADS = 64  # reads that `get_within` has under way

V = TypeVar("V")


class PendingRead(Future[V]):
    """A read, under way or done; *began* is in seconds of the cache's clock."""

    def __init__(self, began: float) -> None:
        super().__init__()
        self.began = began


class _CachedValue(Generic[V]):
    """A value; it expires when the cache's clock says *due*."""

    def __init__(self, value: V, due: float) -> None:
        self.value = value
        self.due = due


class Cache(Generic[V]):
    """
    The latest values, by key. *keep_seconds* returns how long a value is kept; *monotonic* is a
    clock in seconds.

    While one thread reads a key, the others get its expired value if they accept it; else they wait
    and share the outcome. A read that fails is not kept. Where it fails with `StorageUnavailable`,
    an expired value that is accepted is kept once more. Beyond *max_entries* the least recently
    used value goes.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        keep_seconds: Callable[[V], float],
        *,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self._monotonic = monotonic
        self._keep_seconds = keep_seconds
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _CachedValue[V]] = OrderedDict()
        self._readings: dict[str, PendingRead[V]] = {}

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
            RuntimeError: no thread can be had, or `MAX_THREADS` reads are under way.
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
                entry.value = change(entry.value)

    def forget(self, key: str) -> None:
        """Drop the value of *key*, and do not keep what is being read: it may be too old."""
        with self._lock:
            self._entries.pop(key, None)
            self._readings.pop(key, None)

    def forget_all(self, prefix: str) -> None:
        """Forget every key that begins with *prefix*."""
        with self._lock:
            keys = [key for key in (*self._entries, *self._readings) if key.startswith(prefix)]
        for key in keys:
            self.forget(key)

    def _is_current(self, key: str, entry: _CachedValue[V]) -> bool:
        if self._monotonic() >= entry.due:
            return False
        self._entries.move_to_end(key)
        return True

    def _begin(self, key: str) -> PendingRead[V]:
        reading = self._readings[key] = PendingRead(self._monotonic())
        return reading

    def _start(self, key: str, read: Callable[[], V]) -> PendingRead[V]:
        if len(self._readings) >= MAX_THREADS:
            raise RuntimeError("too many concurrent reads")
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
        reading: PendingRead[V],
        fallback: _CachedValue[V] | None,
    ) -> None:
        try:
            value = read()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            if fallback is None or not isinstance(error, StorageUnavailable):
                self._end(key, reading, None)
                reading.set_exception(error)
                return
            value = fallback.value
        self._end(key, reading, _CachedValue(value, self._monotonic() + self._keep_seconds(value)))
        reading.set_result(value)

    def _end(self, key: str, reading: PendingRead[V], entry: _CachedValue[V] | None) -> None:
        with self._lock:
            if self._readings.get(key) is not reading:  # forgotten meanwhile
                return
            del self._readings[key]
            if entry:
                self._entries[key] = entry
                self._entries.move_to_end(key)
                if len(self._entries) > self._max_entries:
                    self._entries.popitem(last=False)


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
