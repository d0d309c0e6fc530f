"""Ends a command on Ctrl-C, on SIGTERM, and when its terminal is closed."""

from __future__ import annotations

import signal


def end_on_signals() -> None:
    """
    Raise KeyboardInterrupt in the main thread at Ctrl-C, at SIGTERM and at SIGHUP.

    They are set explicitly, since Python leaves SIGINT ignored in a shell's background jobs. What
    `nohup` ignores stays ignored.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
            signal.signal(number, _interrupt)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
