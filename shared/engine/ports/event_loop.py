"""Declares ports between the app's event loop and threads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class OffLoop(Protocol):
    """Does what blocks, or takes the processor for long, on a thread beside the event loop."""

    async def __call__(self, call: Callable[[], T], /) -> T:
        """
        Return what *call* returns, or raise what it raises; it has the caller's context.

        A cancelled caller does not wait any more. What it asked for is done all the same, but not
        by threads that withdraw what has not begun.

        Raises:
            StorageUnavailable: no thread can be had, and *call* is not made.
        """


class OnLoop(Protocol):
    """Has the event loop run coroutines for callers on threads, which it keeps waiting."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Return what *coroutine* returns, or raise what it raises."""
