"""Builds one of each part per process; the clock, new ids, waits and garbage collection."""

from __future__ import annotations

import gc
import random
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from threading import RLock
from typing import Any, TypeVar, cast

from shared.adapters.threads import SystemThreads
from shared.adapters.watched_clock import WatchedClock
from shared.clock import Jump, SystemClock
from shared.races import backoff_seconds

T = TypeVar("T")

_MOST_DESCRIPTORS = 16_384  # that the app has a use for

_chance = random.Random()  # noqa: S311 - no secrets
_built: dict[Callable[[], Any], Any] = {}


def _record_jump(jump: Jump) -> None:
    from shared.wiring.storage import clock_records  # what only reads the clock needs no storage

    clock_records().jumped(jump)


def _begin(work: Callable[[], object]) -> None:
    threads().begin(work)


CLOCK = WatchedClock(
    SystemClock().now,
    time.monotonic,
    lambda jump: _begin(partial(_record_jump, jump)),
    awaits_storage=True,
)


def once(build: Callable[[], T]) -> Callable[[], T]:
    """
    Build at the first call only, also when two threads make it at the same time.

    Each part has a lock of its own: the event loop never waits while a thread imports another part.
    """
    lock = RLock()

    @wraps(build)
    def get() -> T:
        if build not in _built:
            with lock:
                if build not in _built:
                    _built[build] = build()
        return cast("T", _built[build])

    return get


def backoff(lost: int) -> None:
    """Wait after *lost* races for a document."""
    time.sleep(backoff_seconds(lost, _chance.random()))


@once
def threads() -> SystemThreads:
    return SystemThreads()


@once
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


def new_id() -> str:
    """Return a new UUID that nobody can guess."""
    return str(uuid.uuid4())


def new_request_id() -> str:
    """Return a new UUID that can be guessed; unlike ``new_id``, it never lets other threads run."""
    return str(uuid.UUID(int=_chance.getrandbits(128), version=4))


def collect_garbage_rarely() -> None:
    """
    Let the collector wait for more objects than the events under way have.

    With Python's 700, each burst of requests begins collections, which find nothing; that of all
    objects stops every thread for 40 ms.
    """
    gc.set_threshold(12_000, *gc.get_threshold()[1:])


def spare_what_lasts() -> None:
    """
    Keep what stands by now from the collector, once a use case is composed.

    A full collection stops the event loop; what it would look at again and again is mostly modules.
    """
    gc.collect()
    gc.freeze()
