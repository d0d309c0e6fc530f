"""A process without descriptors."""

from __future__ import annotations

import gc
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def no_descriptor(free: int = 0) -> Iterator[None]:
    """Let the process have no more descriptors than it has, and *free* ones."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()  # What is collected meanwhile may have to be reported, which opens files.
    with ExitStack() as held:
        gc.disable()
        held.callback(gc.enable)
        highest = held.enter_context(socket.socket()).fileno()
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 100, before[1]))
        with suppress(OSError):
            while True:
                held.enter_context(socket.socket())
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 100 + free, before[1]))
        yield


def take_descriptors() -> None:
    """Inside `no_descriptor`, take what is free, also what other threads close from now on."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))  # standard streams; `poll` needs a few
