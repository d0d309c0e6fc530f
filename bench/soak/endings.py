"""Lets the host end as Azure Functions does, and starts another, as the platform would."""

from __future__ import annotations

import signal
import threading
import time
from random import Random

from bench.soak.azurite_deployment import AzuriteDeployment, Stage
from bench.soak.outages import SECONDS
from bench.soak.soak_deployment import Attacked, Step, wait_until
from testbed.storage_proxy import Attack, Failure, StorageRequest
from testbed.subscriber import Push

STAGE = Stage(options=("--ends-as-azure",))
_HANG = 25.0  # seconds: longer than the host waits at a stop, and shorter than it waits for a push
_ENDED_IN = 60.0  # seconds


def steps(_: Random) -> list[Step[AzuriteDeployment]]:
    """Return a step for each way in which it ends."""
    return [
        Step("host ended without storage", without_storage),
        Step("host stopped as on Azure", stopped),
    ]


def without_storage(deployment: AzuriteDeployment) -> Attacked:
    """Reset all connections to storage until the host ends."""
    with deployment.traffic.flowing():
        time.sleep(SECONDS)
        deployment.storage.proxy.attack = lambda _: Attack(Failure.RESET)
        return _started_again(deployment)


def stopped(deployment: AzuriteDeployment) -> Attacked:
    """Stop the host when it has put a message and receives it, while all endpoints hang."""
    victim, is_over, is_put = deployment.hosts[0], threading.Event(), threading.Event()

    def hang(_: Push) -> None:
        is_over.wait(_HANG)

    def at(request: StorageRequest) -> Attack | None:
        if request.kind == "queue put deliveries":
            is_put.set()
        if request.kind != "queue get deliveries" or not is_put.is_set():
            return None
        return Attack(Failure.STALLED, lambda: victim.process.send_signal(signal.SIGTERM))

    with deployment.traffic.flowing():
        time.sleep(SECONDS)
        deployment.on_push = hang
        time.sleep(SECONDS)
        deployment.storage.proxy.attack = at
        wait_until(lambda: victim.process.poll() is not None, _ENDED_IN)
        is_over.set()
        return _started_again(deployment)


def _started_again(deployment: AzuriteDeployment) -> Attacked:
    """Wait until the host has ended, start another, and let publishers go on."""
    process = deployment.hosts[0].process
    wait_until(lambda: process.poll() is not None, _ENDED_IN)
    deployment.on_push = None
    deployment.calm()
    deliveries = deployment.repeatable()
    deployment.restart()
    time.sleep(SECONDS)
    return Attacked(int(process.returncode == 0), deliveries)
