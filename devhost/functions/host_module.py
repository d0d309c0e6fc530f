"""
The module `__host__`, by which an app and this host tell each other what others need not know.

Azure Functions has no such module: an app looks in `sys.modules`, and goes without.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import types
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

NAME = "__host__"

#: Gets the members of the app's record of a blob that has changed.
BlobHandler = Callable[[Mapping[str, Any]], Awaitable[None]]

_log = logging.getLogger(__name__)


class HostModule(types.ModuleType):
    """What the app may call, from any thread; *notify* has the listeners of a queue poll now."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        super().__init__(NAME, __doc__)
        self._loop = asyncio.get_running_loop()
        self._notify = notify
        self._at_stop: list[Callable[[], object]] = []
        self._at_end: list[Callable[[], Awaitable[object]]] = []
        self.blob_changed: BlobHandler | None = None

    def install(self) -> None:
        """Let the app find it."""
        sys.modules[NAME] = self

    def message_put(self, queue: str) -> None:
        """Say that a message was put on *queue*, and is visible: its function gets it at once."""
        with contextlib.suppress(RuntimeError):  # The loop is closed: the host has ended.
            self._loop.call_soon_threadsafe(self._notify, queue)

    def at_stop(self, call: Callable[[], object]) -> None:
        """Have *call* called when the host stops, on its event loop, before it waits for work."""
        self._at_stop.append(call)

    def at_end(self, call: Callable[[], Awaitable[object]]) -> None:
        """Have *call* awaited, on the event loop, once the host's invocations have ended."""
        self._at_end.append(call)

    def at_blob_change(self, call: BlobHandler) -> None:
        """Have *call* called, on the host's event loop, for each blob that a client changes."""
        self.blob_changed = call

    def stop(self) -> None:
        """Make the calls of `at_stop`."""
        for call in self._at_stop:
            try:
                call()
            except Exception:  # noqa: BLE001 - the app's own; the others are called
                _log.exception("what the app does at the stop of the host failed")

    async def end(self) -> None:
        """Await the calls of `at_end`, one after the other."""
        for call in self._at_end:
            try:
                await call()
            except Exception:  # noqa: BLE001 - as above
                _log.exception("what the app does at the end of the host failed")
