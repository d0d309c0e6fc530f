"""Kills a process at each kind of access to its store, and ends servers in order."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from subprocess import Popen

import requests

from bench.soak.outages import SECONDS
from bench.soak.server_deployment import ServerDeployment
from bench.soak.soak_deployment import (
    Attacked,
    SoakDeployment,
    Step,
    one_after_the_other,
    wait_until,
)
from bench.soak.traffic import TOPIC
from testbed.arm import Arm
from testbed.subscriber import Push

SIDES = ("before", "after")
#: What takes a pause: the process is killed as the pause begins, or when it is over.
PARKING, FREEING = ("insert parked",), ("delete parked",)
_PAUSED = "steady"
REACHED_IN = 40.0  # seconds; a kind that does not come counts as no run
#: Kills of a row in which nothing need be delivered: one more, and what was there at all of them
#: would be poison.
KILLS = 5
SHORTEST, LONGEST = 0.1, 3.0  # seconds between two of them: it may be ready or not
_PUSH = "push received, unanswered"


def steps_at(kinds: Sequence[str], chance: Random) -> list[Step[SoakDeployment]]:
    """Return a step for each kind, in which the process is killed before one and after another."""
    attacks = {
        kind: [killed_at(kind, side, chance.randint(1, 3)) for side in SIDES] for kind in kinds
    }
    attacks[_PUSH] = [killed_at_push(chance.randint(5, 60)) for _ in SIDES]
    found = [Step(f"kill -9: {kind}", one_after_the_other(two)) for kind, two in attacks.items()]
    chance.shuffle(found)
    return found


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


def pause_steps() -> list[Step[ServerDeployment]]:
    """Return a step for what a pause does as it begins, and one for when it is over."""
    return [
        Step(
            f"kill -9: {kind}", one_after_the_other([killed_at_pause(kind, each) for each in SIDES])
        )
        for kind in (*PARKING, *FREEING)
    ]


def killed_at_pause(kind: str, side: str) -> Callable[[ServerDeployment], Attacked]:
    """Make an attack that kills the process while a pause parks events, or when they are freed."""

    def attack(deployment: ServerDeployment) -> Attacked:
        def act(action: str) -> None:
            Arm(deployment.url).act(TOPIC, _PAUSED, action)

        def arm() -> None:
            with suppress(requests.RequestException):  # it was killed before its answer
                if kind in PARKING:
                    deployment.kill_at(kind, side, 1)
                act("pause")
                if kind in FREEING:
                    wait_until(lambda: deployment.parked() > 0, REACHED_IN)
                    deployment.kill_at(kind, side, 1)
                    act("resume")

        done = killed_by(deployment, arm)
        act("resume")
        return done

    return attack


def restart_steps(_: Random, times: int = 1) -> list[Step[ServerDeployment]]:
    """Return a step that ends each server in order, and starts it again: nothing is repeated."""

    def attack(deployment: ServerDeployment) -> Attacked:
        ended = 0
        with deployment.traffic.flowing():
            for each in [*deployment.servers] * times:
                time.sleep(SECONDS)
                ended += each.end_in_order(signal.SIGTERM) == 0
                each.start()
            time.sleep(SECONDS)
        return Attacked(ended)

    return [Step("SIGTERM", attack)]


def killed_by(deployment: SoakDeployment, arm: Callable[[], None]) -> Attacked:
    """Publish, arm the attack, and publish until the process is dead."""
    victim, accepted = deployment.process, deployment.ledger.accepted
    before = len(accepted)
    with deployment.traffic.flowing():
        wait_until(lambda: len(accepted) > before, REACHED_IN)
        arm()
        wait_until(lambda: victim.poll() is not None, REACHED_IN)
    return after_death(deployment, victim, 0)


def after_death(deployment: SoakDeployment, victim: Popen[str], seconds: float) -> Attacked:
    """Wait until the *victim* is dead, and start another."""
    is_reached = wait_until(lambda: victim.poll() is not None, seconds)
    deployment.on_push = None
    deployment.calm()
    deliveries = deployment.repeatable()
    deployment.restart()
    return Attacked(int(is_reached), deliveries * is_reached)
