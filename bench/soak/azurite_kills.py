"""Kills the host at each kind of request to Azurite, and when a late answer has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random

from bench.soak.azurite_deployment import AzuriteDeployment, Stage, kill_at
from bench.soak.kills import REACHED_IN, SIDES, after_death, brief_steps_at, steps_at
from bench.soak.ledger import DELIVERIES
from bench.soak.soak_deployment import (
    Attacked,
    SoakDeployment,
    Step,
    one_after_the_other,
    wait_until,
)
from testbed.subscriber import Push

#: Each kind that the traffic causes within seconds; rarer ones come after a longer wait.
KINDS = (
    *(
        f"queue {verb} {queue}"
        for queue in ("deliveries", "retries", "waiting", "deadletters", "deliveries-poison")
        for verb in ("put", "get", "delete")
    ),
    *(f"blob {verb} payloads" for verb in ("write", "read", "batch", "list")),
    "blob write dead-refusing",
    "blob lease azure-webjobs-hosts",
    *(f"table {verb} topics" for verb in ("query", "insert", "write")),
    *(f"table {verb} eventsubscriptions" for verb in ("query", "insert", "delete")),
    *(f"table {verb} endpointhealth" for verb in ("query", "write", "delete")),
    "table batch",
    "table write metrics",
)
#: Those of the short form: of each thing that is stored, and none that takes long to come.
BRIEF = (
    "queue put deliveries",
    "queue delete deliveries",
    "queue put retries",
    "queue delete waiting",
    "queue delete deadletters",
    "blob write payloads",
)
STAGE = Stage()
LATE_STAGE = Stage(settings={"PUSHGRID_TIME_SCALE": "4"})  # the retry is hidden for 2.5 s
_LATE = 30.5  # seconds: half a second after the acknowledgement timeout, which is never scaled


def steps(chance: Random) -> list[Step[SoakDeployment]]:
    """Return a step for each kind of request."""
    return steps_at(KINDS, chance)


def brief_steps(chance: Random) -> list[Step[SoakDeployment]]:
    """Return one step that kills at some kinds of requests."""
    return brief_steps_at(BRIEF, chance)


def late_steps(_: Random) -> list[Step[AzuriteDeployment]]:
    """Return a step that kills when a late answer takes its retry back."""
    attacks = [killed_at_late_answer(side) for side in SIDES]
    return [Step("kill -9: late answer, queue delete retries", one_after_the_other(attacks))]


def killed_at_late_answer(side: str) -> Callable[[AzuriteDeployment], Attacked]:
    """Make an attack that kills the host at the request that a late answer causes."""

    def attack(deployment: AzuriteDeployment) -> Attacked:
        is_held, victim = threading.Event(), deployment.hosts[0]

        def hold(push: Push) -> None:
            if push.path.endswith("/steady") and not is_held.is_set():
                is_held.set()
                time.sleep(_LATE)
                deployment.storage.proxy.attack = kill_at("queue delete retries", side, 1, victim)

        deployment.on_push = hold
        with deployment.traffic.flowing():
            wait_until(is_held.is_set, REACHED_IN)
        done = after_death(deployment, victim.process, _LATE + REACHED_IN)
        # The late answer's own delivery comes again as well.
        return done._replace(deliveries=done.deliveries + DELIVERIES)

    return attack
