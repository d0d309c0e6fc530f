"""Lets code on threads have coroutines run on the app's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")


class Bridge:
    """
    The one way from threads to the event loop that all state of delivering belongs to.

    The loop is that on which the functions run, once it is *attached*; a process without one (a
    command, a test) gets a loop on a thread of its own at the first call.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self) -> None:
        """
        Use the running loop of this thread, if there is one, from now on.

        Raises:
            RuntimeError: another loop is in use, and state belongs to that one.
        """
        loop = _running_loop()
        if loop is None:
            return
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = loop
            elif self._loop is not loop:
                raise RuntimeError("another event loop runs the app")

    def run(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """
        Run *coroutine* on the loop, and wait for its result.

        Raises:
            RuntimeError: called on the loop's own thread, which would wait for itself.
        """
        loop = self._get_loop()
        if _running_loop() is loop:
            coroutine.close()
            raise RuntimeError("the event loop would wait for itself")
        result = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return result.result()
        finally:
            result.cancel()  # where the caller was interrupted

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                Thread(target=self._loop.run_forever, name="app-loop", daemon=True).start()
            return self._loop


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
