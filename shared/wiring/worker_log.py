"""
Prints what is logged outside of invocations, which the Functions host drops otherwise.

The Python worker sends a line to the host with the id of its invocation, and the host drops lines
without one, or with that of an invocation that has ended. On a thread of our own the worker knows
none. On the event loop it does not know better: a task has the id of the one that made it, whatever
its context, or else that of the invocation that began last. So the entry points say what belongs to
an invocation, and tasks that may outlive theirs start in a context that does not
(`telemetry.own_context`). What is printed the host keeps (category ``Host.Function.Console``).

Source: azure-functions-host, ``GrpcWorkerChannel.Log`` and ``WorkerProcess``;
azure-functions-python-worker, ``dispatcher.py`` (``ContextEnabledTask``); 2024-10.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

from shared.settings import LogFormat
from shared.telemetry import LOGGER, TextLines

_of_invocation: ContextVar[bool] = ContextVar("of_invocation", default=False)


class ConsoleLines(logging.Handler):
    """Prints lines of JSON that the host drops."""

    def __init__(self, is_kept: Callable[[], bool]) -> None:
        super().__init__()
        self._is_kept = is_kept

    def leaves(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is one for the host."""
        return record.name != LOGGER or self._is_kept()

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_kept():
            return
        line = record.getMessage()
        if record.levelno < logging.WARNING:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        else:
            # The host finds the level of what comes on stderr by such words in it.
            sys.stderr.write(f'{line[:-1]},"level":"{record.levelname}"}}\n')
            sys.stderr.flush()


def use_format(chosen: LogFormat) -> None:
    """Log attempts and refusals as *chosen* from now on."""
    logger = logging.getLogger(LOGGER)
    for each in [each for each in logger.filters if isinstance(each, TextLines)]:
        logger.removeFilter(each)
    if chosen is LogFormat.TEXT:
        logger.addFilter(TextLines())


def begin_invocation() -> None:
    """Say that the running coroutine is that of an invocation, with what it makes and awaits."""
    _of_invocation.set(True)


def print_what_the_host_drops() -> None:
    """Begin to print, where Microsoft's Python worker runs us; other hosts lose nothing."""
    logger = logging.getLogger(LOGGER)
    if any(isinstance(handler, ConsoleLines) for handler in logger.handlers):
        return
    for handler in logging.getLogger().handlers:
        worker = sys.modules.get(type(handler).__module__)
        invocation = getattr(worker, "get_current_invocation_id", None)
        if invocation:
            lines = ConsoleLines(partial(_is_kept, invocation))
            logger.addHandler(lines)
            handler.addFilter(lines.leaves)
            return


def _is_kept(invocation: Callable[[], object]) -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return invocation() is not None
    return _of_invocation.get()
