"""Retry policy for ETag conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ldexp

TRIES = 15  # how often a race may be lost
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.05, 1.0  # seconds

Backoff = Callable[[int], None]  # waits after so many lost races


def tries(backoff: Backoff) -> Iterator[None]:
    """Yield for each try to read, decide and write; *backoff* waits between two tries."""
    for lost in range(TRIES):
        if lost:
            backoff(lost)
        yield


def backoff_seconds(lost: int, jitter: float) -> float:
    """
    Return how many seconds to wait after *lost* races; *jitter* is from 0 to below 1.

    Exponential backoff with full jitter.
    """
    return jitter * min(ldexp(_FIRST_BACKOFF, lost), _LONGEST_BACKOFF)
