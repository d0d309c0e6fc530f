"""Measures time that does not pass while this process is stopped."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import monotonic, sleep


class AwakeClock:
    """
    A monotonic clock, in seconds, that stands still while the process does.

    After a SIGSTOP, a suspended laptop or a paused container no deadline has passed and no endpoint
    looks slow: the pause was ours. A thread beats each *beat* seconds, and time goes on for
    *missed* seconds after a beat at most. Without that thread it is the system's clock.
    Thread-safe.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = monotonic,
        *,
        beat: float = 0.5,
        missed: float = 2.0,
    ) -> None:
        self._monotonic = monotonic
        self._every = beat
        self._missed = missed
        self._lock = threading.Lock()
        # The latest beat: when it was by the system's clock, and by this one.
        self._beat: tuple[float, float] | None = None
        os.register_at_fork(after_in_child=self._stop)

    def __call__(self) -> float:
        # Several times a push: this is `_read`, and calls nothing but the system's clock.
        if (beat := self._beat) is None:
            self._start()
            return self._read()[1]
        passed = self._monotonic() - beat[0]
        return beat[1] + (min(self._missed, passed))

    def _read(self) -> tuple[float, float]:
        """Return the time by the system's clock and by this one, both of the same moment."""
        now = self._monotonic()
        at, awake = self._beat or (now, now)
        return now, awake + min(now - at, self._missed)

    def _start(self) -> None:
        with self._lock:
            if self._beat is None:
                now = self._monotonic()
                thread = threading.Thread(target=self._run, name="awake-clock", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return
                self._beat = now, now

    def _stop(self) -> None:
        """Forget the thread, which a fork does not copy."""
        self._lock = threading.Lock()
        self._beat = None

    def _run(self) -> None:
        while True:
            sleep(self._every)
            self._beat = self._read()
