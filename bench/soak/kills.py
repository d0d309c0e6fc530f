"""Kills the process at each kind of access to its store, before it is done or after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from random import Random
from subprocess import Popen

from bench.soak.azurite_deployment import AzuriteDeployment, Stage, kill_at
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
SIDES = ("before", "after")
STAGE = Stage()
LATE_STAGE = Stage(settings={"PUSHGRID_TIME_SCALE": "4"})  # the retry is hidden for 2.5 s
_LATE = 30.5  # seconds: half a second after the acknowledgement timeout, which is never scaled
REACHED_IN = 40.0  # seconds; a kind that does not come counts as no run
_PUSH = "push received, unanswered"


def steps(chance: Random) -> list[Step[SoakDeployment]]:
    """Return a step for each kind of request."""
    return steps_at(KINDS, chance)


def steps_at(kinds: Sequence[str], chance: Random) -> list[Step[SoakDeployment]]:
    """Return a step for each kind, in which the process is killed before one and after another."""
    attacks = {
        kind: [killed_at(kind, side, chance.randint(1, 3)) for side in SIDES] for kind in kinds
    }
    attacks[_PUSH] = [killed_at_push(chance.randint(5, 60)) for _ in SIDES]
    found = [Step(f"kill -9: {kind}", one_after_the_other(two)) for kind, two in attacks.items()]
    chance.shuffle(found)
    return found


def brief_steps(chance: Random) -> list[Step[SoakDeployment]]:
    """Return one step that kills at some kinds of requests."""
    return brief_steps_at(BRIEF, chance)


def brief_steps_at(kinds: Sequence[str], chance: Random) -> list[Step[SoakDeployment]]:
    """Return one step that kills at each of some kinds, one after the other."""
    attacks = [killed_at(kind, chance.choice(SIDES), chance.randint(1, 2)) for kind in kinds]
    return [Step("kill -9", one_after_the_other([*attacks, killed_at_push(40)]))]


def killed_at(kind: str, side: str, place: int) -> Callable[[SoakDeployment], Attacked]:
    """Make an attack that kills the process as `SoakDeployment.kill_at` does."""

    def attack(deployment: SoakDeployment) -> Attacked:
        return killed_by(deployment, lambda: deployment.kill_at(kind, side, place))

    return attack


def killed_at_push(place: int) -> Callable[[SoakDeployment], Attacked]:
    """Make an attack that kills the host when a push has arrived: others are half answered."""

    def attack(deployment: SoakDeployment) -> Attacked:
        left, lock, victim = [place], threading.Lock(), deployment.process

        def at(_: Push) -> None:
            with lock:
                left[0] -= 1
                if left[0] == 0:
                    victim.kill()

        def arm() -> None:
            deployment.on_push = at

        return killed_by(deployment, arm)

    return attack


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
        done = _after(deployment, victim.process, _LATE + REACHED_IN)
        # The late answer's own delivery comes again as well.
        return done._replace(deliveries=done.deliveries + DELIVERIES)

    return attack


def killed_by(deployment: SoakDeployment, arm: Callable[[], None]) -> Attacked:
    """Publish, arm the attack, and publish until the process is dead."""
    victim, accepted = deployment.process, deployment.ledger.accepted
    before = len(accepted)
    with deployment.traffic.flowing():
        wait_until(lambda: len(accepted) > before, REACHED_IN)
        arm()
        wait_until(lambda: victim.poll() is not None, REACHED_IN)
    return _after(deployment, victim, 0)


def _after(deployment: SoakDeployment, victim: Popen[str], seconds: float) -> Attacked:
    """Wait until the *victim* is dead, and start another."""
    is_reached = wait_until(lambda: victim.poll() is not None, seconds)
    deployment.on_push = None
    deployment.calm()
    deliveries = deployment.repeatable()
    deployment.restart()
    return Attacked(int(is_reached), deliveries * is_reached)
