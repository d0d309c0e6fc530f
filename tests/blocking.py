"""Finds calls that keep an event loop waiting, also where a handler swallows the fault."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import blockbuster.blockbuster as found_by
import pytest


@contextmanager
def blocking_calls() -> Iterator[list[str]]:
    """
    Let calls that block raise ``BlockingError`` where a loop runs; give the stacks of those made.

    Only what the app itself calls counts.
    """
    made: list[str] = []

    class Noted(found_by.BlockingError):
        def __init__(self, call: str) -> None:
            super().__init__(call)
            made.append("".join(traceback.format_stack()[:-2]) + f"made {call}")

    with pytest.MonkeyPatch.context() as patched, found_by.blockbuster_ctx(["shared"]) as found:
        patched.setattr(found_by, "BlockingError", Noted)
        for each in found.functions.values():
            each.can_block_in("logging/__init__.py", "callHandlers")  # the host's, here pytest's
        yield made
