"""Draws chance, raises the limit of descriptors and tunes garbage collection for a process."""

from __future__ import annotations

import gc
import random
import secrets
import uuid
from contextlib import suppress

_MOST_DESCRIPTORS = 16_384  # that the app has a use for


class SystemChance:
    """Implements the port ``Chance``; what is secret comes from the operating system."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - no secrets
        self.jitter = self._random.random

    def id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def secret_id(self) -> str:
        return str(uuid.uuid4())

    def secret(self, size: int) -> bytes:
        return secrets.token_bytes(size)


def descriptors() -> int:
    """Allow this process as many descriptors as it may have; return that number."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return _MOST_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_DESCRIPTORS
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft < most:
        with suppress(OSError, ValueError):  # a limit beyond that of the kernel
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return most
    return min(soft, _MOST_DESCRIPTORS)


def collect_garbage_rarely() -> None:
    """
    Let the collector wait for more objects than the events under way have.

    With Python's 700, each burst of requests begins collections, which find nothing; that of all
    objects stops every thread for 40 ms.
    """
    gc.set_threshold(12_000, *gc.get_threshold()[1:])


def return_memory() -> None:
    """
    Give back to the system what is free inside: glibc keeps all that a burst has needed.

    It takes some ms after a burst, and next to nothing otherwise. Other libraries do it themselves.
    """
    import ctypes  # here: a cold start does without it

    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def spare_what_lasts() -> None:
    """
    Keep what stands by now from the collector, once a use case is composed.

    A full collection stops the event loop; what it would look at again and again is mostly modules.
    """
    gc.collect()
    gc.freeze()
