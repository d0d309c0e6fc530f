"""Takes something away for seconds while publishers go on; descriptors, or the processor."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.soak.soak_deployment import Attacked, D, SoakDeployment

SECONDS = 5.0  # of an outage, of what comes before it, and of what comes after it
_DESCRIPTORS = 6  # that a starved host may open beyond those that it has

Outage = Callable[[D], AbstractContextManager[None]]


def during(
    outage: Outage[D], *, seconds: float = SECONDS, may_repeat: bool = False
) -> Callable[[D], Attacked]:
    """
    Make an attack in which publishers go on before, during and after an *outage* of *seconds*.

    *may_repeat*: what was under way when it began may come again.
    """

    def attack(deployment: D) -> Attacked:
        with deployment.traffic.flowing():
            time.sleep(SECONDS)
            with outage(deployment):
                deliveries = deployment.repeatable() if may_repeat else 0
                time.sleep(seconds)
            time.sleep(SECONDS)
        return Attacked(1, deliveries)

    return attack


@contextmanager
def few_descriptors(deployment: SoakDeployment) -> Iterator[None]:
    """Let the process open few files and connections more."""
    import resource

    pid = deployment.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    has = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (has + _DESCRIPTORS, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


@contextmanager
def frozen(deployment: SoakDeployment) -> Iterator[None]:
    """Stop the process; messages of a host become visible again meanwhile."""
    pid = deployment.process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
