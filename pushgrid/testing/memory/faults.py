"""Makes ports in memory fail when a test says so."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator

from shared.errors import StorageUnavailable


class Faulty:
    """Fails when told to, before its work (the usual case) or after it (an answer was lost)."""

    def __init__(self) -> None:
        self._before: Counter[str] = Counter()
        self._after: Counter[str] = Counter()
        self._lock = threading.RLock()
        self.answered: Callable[[], object] = lambda: None  # called after the work

    def fail_next(self, method: str, times: int = 1, *, after: bool = False) -> None:
        """Raise ``StorageUnavailable`` from the next *times* calls of *method*."""
        getattr(self, method)  # a test that names it wrongly should not pass
        (self._after if after else self._before)[method] += times

    @contextlib.contextmanager
    def _at_work(self, method: str) -> Iterator[None]:
        with self._lock:
            _count_down(self._before, method)
            yield
            _count_down(self._after, method)
            self.answered()


def _count_down(faults: Counter[str], method: str) -> None:
    if faults[method] > 0:
        faults[method] -= 1
        raise StorageUnavailable
