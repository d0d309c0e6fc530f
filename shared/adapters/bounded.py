"""Work that many may ask for: done by one thread at a time, now and then, and never waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Bounded(Generic[T]):
    """
    What *work* has returned within the last *keep_seconds*, else what it returns now.

    Nobody waits for longer than *wait_seconds*: ``None`` then. Work that hangs is not begun a
    second time. *monotonic* is a clock in seconds.
    """

    def __init__(
        self,
        work: Callable[[], T],
        *,
        wait_seconds: float,
        keep_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._work = work
        self._wait = wait_seconds
        self._keep = keep_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last: Future[T] | None = None
        self._begun = 0.0
        self._due = 0.0

    def get(self) -> T | None:
        """Return the newest result there is in time. Raises what *work* raises."""
        with self._lock:
            now = self._monotonic()
            last = self._last
            if last is None or (last.done() and now >= self._due):
                last = self._last = Future()
                self._begun = now
                threading.Thread(target=self._run, args=(last,), daemon=True).start()
            left = self._begun + self._wait - now
        try:
            return last.result(max(left, 0))
        except TimeoutError:
            return None

    def _run(self, future: Future[T]) -> None:
        try:
            result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised where it is asked for
            self._due = self._monotonic() + self._keep
            future.set_exception(error)
        else:
            self._due = self._monotonic() + self._keep
            future.set_result(result)
