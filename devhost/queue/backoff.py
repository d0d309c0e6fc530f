"""How long a listener waits before it asks an empty queue again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

_MINIMUM = timedelta(milliseconds=100)
_DELTA = timedelta(milliseconds=100)
_LEAST, _MOST = 0.8, 1.2


class Backoff:
    """
    The real listener's randomized exponential back-off: about 100, 200, 300, 500, 900 … ms.

    *uniform* draws a number between its two arguments.

    Source: Storage.Common Timers/RandomizedExponentialBackoffStrategy.cs (2024-10).
    """

    def __init__(self, longest: timedelta, uniform: Callable[[float, float], float]) -> None:
        self._longest = longest
        self._uniform = uniform
        self._exponent = 0
        self._current = timedelta(0)

    def next_delay(self, *, after_work: bool) -> timedelta:
        """Return the wait after an empty poll; *after_work*: the poll before it found something."""
        if after_work:
            self._current, self._exponent = _MINIMUM, 1
        elif self._current != self._longest:
            delay = _MINIMUM
            if self._exponent:
                delay += self._uniform(_LEAST, _MOST) * 2 ** (self._exponent - 1) * _DELTA
            self._exponent += 1
            self._current = min(delay, self._longest)
        return self._current
