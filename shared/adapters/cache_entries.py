"""Values that are read anew now and then, by one thread at a time; it knows not what they are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from shared.errors import StorageUnavailable

MAX_ENTRIES = 10_000

V = TypeVar("V")


class Entry(Generic[V]):
    """Something read, to be read again when the clock says *due*."""

    def __init__(self, value: V, due: float) -> None:
        self.value = value
        self.due = due


class Entries(Generic[V]):
    """
    The values read last, by key.

    One thread at a time reads a key. The others are served what is known, or wait with it and share
    what it gets, errors included.
    """

    def __init__(self, monotonic: Callable[[], float], seconds_for: Callable[[V], float]) -> None:
        self._monotonic = monotonic
        self._seconds_for = seconds_for
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, Entry[V]] = OrderedDict()
        self._reading: dict[str, Future[V]] = {}

    def get(self, key: str, read: Callable[[], V]) -> V:
        """Return the value of *key*, which *read* reads if it is due."""
        with self._lock:
            known = self._entries.get(key)
            if known and self._monotonic() < known.due:
                self._entries.move_to_end(key)
                return known.value
            reading = self._reading.get(key)
            if reading is None:
                mine = self._reading[key] = Future()
            elif known and known.value is not None:
                return known.value
        if reading is not None:
            return reading.result()
        return self._read(key, read, known, mine)

    def update(self, key: str, change: Callable[[V], V]) -> None:
        """Change the value of *key*, if there is one, without making it any younger."""
        with self._lock:
            if known := self._entries.get(key):
                known.value = change(known.value)

    def forget(self, key: str) -> None:
        """Drop the value of *key*, and also what is being read now: it may be too old."""
        with self._lock:
            self._entries.pop(key, None)
            self._reading.pop(key, None)

    def forget_all(self, prefix: str) -> None:
        """Forget every key that begins with *prefix*."""
        with self._lock:
            keys = [key for key in (*self._entries, *self._reading) if key.startswith(prefix)]
        for key in keys:
            self.forget(key)

    def _read(self, key: str, read: Callable[[], V], known: Entry[V] | None, mine: Future[V]) -> V:
        try:
            value = read()
        except StorageUnavailable as error:
            # That there is none is no answer: there may be one by now.
            if known is None or known.value is None:
                self._end(key, mine)
                mine.set_exception(error)
                raise
            value = known.value
        except BaseException as error:
            self._end(key, mine)
            mine.set_exception(error)
            raise
        self._end(key, mine, value)
        mine.set_result(value)
        return value

    def _end(self, key: str, mine: Future[V], *values: V) -> None:
        with self._lock:
            if self._reading.get(key) is not mine:
                return
            del self._reading[key]
            for value in values:
                due = self._monotonic() + self._seconds_for(value)
                self._entries[key] = Entry(value, due)
                self._entries.move_to_end(key)
                if len(self._entries) > MAX_ENTRIES:
                    self._entries.popitem(last=False)
