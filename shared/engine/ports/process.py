"""Declares ports to what a process has: threads beside the app's event loop, and chance."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
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


class Lock(Protocol):
    """A lock between threads, not reentrant."""

    def acquire(self, blocking: bool = True) -> bool:  # noqa: FBT001, FBT002 - as `threading` has it
        """Take the lock; ``False``: it is taken, and this thread does not wait."""

    def release(self) -> None:
        """Give the lock back."""

    def __enter__(self) -> bool:
        """Wait for the lock, and take it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """Give the lock back."""


class Channel(Protocol[T]):
    """Hands over things from any thread to others, each once and in order, without a bound."""

    def put(self, item: T, /) -> None:
        """Add one; nobody waits."""

    def get(self) -> T:
        """Wait for the next, and take it."""

    def get_nowait(self) -> T:
        """Take the next. Raises `queue.Empty` if there is none."""


class Threads(Protocol):
    """Pools beside the loop, the way back to it, background threads, waits, locks and channels."""

    def pool(self, name: str, most: int, *, withdraws: bool = False) -> OffLoop:
        """
        Return a new pool of *most* threads, which begin when they are needed.

        *withdraws*: a call that has not begun is not made if its caller is cancelled.
        """

    @property
    def on_loop(self) -> OnLoop:
        """The way back to the event loop."""

    def begin(self, work: Callable[[], object], /) -> None:
        """
        Begin *work*, which may wait, on a thread of its own, and in `telemetry.own_context`.

        Raises:
            RuntimeError: no thread can be had.
        """

    def result(self, of: Future[T], seconds: float | None = None) -> T:
        """
        Wait for a result, and return it or raise what it is.

        Raises:
            TimeoutError: it is not there after *seconds*.
        """

    def sleep(self, seconds: float) -> None:
        """Keep the calling thread waiting."""

    def monotonic(self) -> float:
        """Return seconds since some moment in the past, which setting a clock does not change."""

    def lock(self) -> Lock:
        """Return a new lock."""

    def channel(self) -> Channel[Any]:
        """Return a new channel."""


class Chance(Protocol):
    """Random numbers, ids and secrets, from any thread."""

    def jitter(self) -> float:
        """Return a number from 0 to below 1."""

    def id(self) -> str:
        """
        Return a new UUID, which may be guessed.

        It takes no system call, so the interpreter's lock is kept.
        """

    def secret_id(self) -> str:
        """Return a new UUID that nobody can guess."""

    def secret(self, size: int) -> bytes:
        """Return *size* bytes that nobody can guess."""
