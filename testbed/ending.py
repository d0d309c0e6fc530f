"""Ending a command as a person or a supervisor asks for it."""

from __future__ import annotations

import signal


def end_on_signals() -> None:
    """
    Raise KeyboardInterrupt in the main thread at Ctrl-C and at SIGTERM.

    A shell starts background jobs with SIGINT ignored, and Python leaves it so: hence both by name.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
