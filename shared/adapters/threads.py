"""The threads of a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import TypeVar

from shared.adapters.bridge import Bridge
from shared.adapters.off_loop import ThreadPool

T = TypeVar("T")


class SystemThreads:
    """Implements the port ``Threads``; `attach` makes the running loop the app's (`Bridge`)."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._bridge = Bridge()
        self.attach = self._bridge.attach
        self.on_loop = self._bridge.run

    def pool(self, name: str, most: int, *, withdraws: bool = False) -> ThreadPool:
        return ThreadPool(most, name, withdraws=withdraws)

    def begin(self, work: Callable[[], object], /) -> bool:
        try:
            Thread(target=work, daemon=True).start()
        except RuntimeError:
            return False
        return True

    def result(self, of: Future[T], seconds: float | None = None) -> T:
        return of.result(seconds)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def lock(self) -> Lock:
        return Lock()
