"""Kills the process while operators pause a subscription, and while they replay dead letters."""

from __future__ import annotations

import threading
import time
from random import Random

import requests

from bench.soak.soak_deployment import Attacked, SoakDeployment, Step, wait_until
from bench.soak.traffic import REPLAYED, TOPIC, container_of
from testbed.arm import Arm

_CACHED = 2.0  # seconds: twice what a host may know of a subscription (PUSHGRID_CACHE_SECONDS)
_SECONDS = 3.0  # of traffic, before and after
_PATIENCE = 120.0  # for a replay, which has steps of ten seconds
_SOURCE, _PAUSED = "refusing", "filtered"  # which has few events, as they come back slowly


def steps(_: Random) -> list[Step[SoakDeployment]]:
    return [
        Step("paused, process killed", kill_during_pause),
        Step("replayed, process killed", kill_during_replay),
        Step("replayed again", replay_again),
    ]


def kill_during_pause(deployment: SoakDeployment) -> Attacked:
    """Publish in a pause: nothing of that may be pushed before the subscription is resumed."""
    with deployment.traffic.flowing():
        time.sleep(_SECONDS)
        _act(deployment, "pause")
        time.sleep(_CACHED)
        deployment.ledger.pause(_PAUSED)
        time.sleep(_SECONDS)
        deliveries = deployment.kill_and_restart()
        time.sleep(_SECONDS)
        wait_until(lambda: deployment.ledger.keeps_back(_PAUSED), _PATIENCE)
        deployment.ledger.resume(_PAUSED)
        _act(deployment, "resume")
        time.sleep(_SECONDS)
    return Attacked(1, deliveries)


def kill_during_replay(deployment: SoakDeployment) -> Attacked:
    """Replay all dead letters of a subscription to another one, which gets each of them."""
    with deployment.traffic.flowing():
        time.sleep(2 * _SECONDS)
    deployment.settle()
    letters = deployment.dead_letters(container_of(_SOURCE))
    deployment.ledger.replay(REPLAYED, letters)
    is_begun = threading.Event()
    deployment.on_push = lambda push: is_begun.set() if push.path.endswith(REPLAYED) else None
    job = _replay(deployment)
    is_begun.wait(_PATIENCE)
    deliveries = deployment.kill_and_restart()
    _wait(deployment, job)
    return Attacked(1, deliveries)


def replay_again(deployment: SoakDeployment) -> Attacked:
    """Replay the same once more, which sends nothing: what came would be a stray."""
    _wait(deployment, _replay(deployment))
    with deployment.traffic.flowing():
        time.sleep(_SECONDS)
    return Attacked(1)


def _act(deployment: SoakDeployment, action: str) -> None:
    Arm(deployment.url).act(TOPIC, _PAUSED, action)


def _replay(deployment: SoakDeployment) -> str:
    to = {"topic": TOPIC, "subscription": REPLAYED}
    return Arm(deployment.url).replay(container=container_of(_SOURCE), to=to, rate=1000)


def _wait(deployment: SoakDeployment, job: str) -> None:
    def has_ended() -> bool:
        try:
            return Arm(deployment.url).replay_state(job) != "Running"
        except requests.RequestException:
            return False

    wait_until(has_ended, _PATIENCE)
