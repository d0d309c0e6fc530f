"""Builds one of each part per process; the clock and new ids."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast

from shared.clock import SystemClock

CLOCK = SystemClock()

T = TypeVar("T")

_lock = RLock()
_built: dict[Callable[[], Any], Any] = {}


def once(build: Callable[[], T]) -> Callable[[], T]:
    """Build at the first call only, also when two threads make it at the same time."""

    @wraps(build)
    def get() -> T:
        if build not in _built:
            with _lock:
                if build not in _built:
                    _built[build] = build()
        return cast("T", _built[build])

    return get


def new_id() -> str:
    """Return a new UUID."""
    return str(uuid.uuid4())
