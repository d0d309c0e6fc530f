"""
Prints what is logged outside of invocations, which the Functions host drops otherwise.

The Python worker sends a line to the host with the id of its invocation, which it knows of its own
threads and tasks. The host drops lines without one: those of the threads that deliver, wait for
late answers and write counts. What is printed it keeps (category ``Host.Function.Console``).

Source: azure-functions-host, ``GrpcWorkerChannel.Log`` and ``WorkerProcess``;
azure-functions-python-worker, ``dispatcher.py``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from shared.settings import LogFormat
from shared.telemetry import LOGGER, TextLines


class ConsoleLines(logging.Handler):
    """Prints lines of JSON that belong to no invocation; *invocation* returns the current one."""

    def __init__(self, invocation: Callable[[], object]) -> None:
        super().__init__()
        self._invocation = invocation

    def emit(self, record: logging.LogRecord) -> None:
        if self._invocation() is not None:
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


def print_what_the_host_drops() -> None:
    """Begin to print, where Microsoft's Python worker runs us; other hosts lose nothing."""
    logger = logging.getLogger(LOGGER)
    if any(isinstance(handler, ConsoleLines) for handler in logger.handlers):
        return
    for handler in logging.getLogger().handlers:
        worker = sys.modules.get(type(handler).__module__)
        invocation = getattr(worker, "get_current_invocation_id", None)
        if invocation:
            logger.addHandler(ConsoleLines(invocation))
            return
