"""
Tells the local host what it need not find out, and hears when it stops.

Its module `__host__` has what is used here (devhost/README.md); other hosts have none.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any


def message_put(queue: str) -> None:
    """Say that a message was put on *queue*, and is visible: its function gets it at once."""
    if host := _host():
        host.message_put(queue)


def at_stop(call: Callable[[], object]) -> None:
    """Have *call* called on the event loop when the host stops."""
    if host := _host():
        host.at_stop(call)


def at_end(call: Callable[[], Awaitable[object]]) -> None:
    """Have *call* awaited on the event loop when the host has stopped, before its process ends."""
    if host := _host():
        host.at_end(call)


def at_blob_change(call: Callable[[Mapping[str, Any]], Awaitable[None]]) -> None:
    """Have *call* called on the event loop for each blob that another program changes."""
    if host := _host():
        host.at_blob_change(call)


def _host() -> Any:
    return sys.modules.get("__host__")
