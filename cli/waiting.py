"""Shows on a terminal that a command waits."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SILENT_SECONDS = 1.0


@contextmanager
def spinner() -> Iterator[None]:
    """Show on standard error that the block runs, if it takes longer than a second."""
    if not sys.stderr.isatty():
        yield
        return
    has_ended = threading.Event()

    def show() -> None:
        if not has_ended.wait(_SILENT_SECONDS):
            from cli.output import Console

            with Console(stderr=True).status("waiting for the deployment's answer …"):
                has_ended.wait()

    shown = threading.Thread(target=show, daemon=True)
    shown.start()
    try:
        yield
    finally:
        has_ended.set()
        shown.join()
