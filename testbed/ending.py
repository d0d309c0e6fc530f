"""Ends a command on Ctrl-C and on SIGTERM."""

from __future__ import annotations

import signal


def end_on_signals() -> None:
    """
    Raise KeyboardInterrupt in the main thread at Ctrl-C and at SIGTERM.

    Both are set explicitly, since Python leaves SIGINT ignored in a shell's background jobs.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
