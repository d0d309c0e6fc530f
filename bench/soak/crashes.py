"""Kills Azurite, which answers before it has saved: what it saved before must be there."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from bench.soak.azurite_deployment import AzuriteDeployment
from bench.soak.ledger import DELIVERIES
from bench.soak.soak_deployment import Attacked, Step, wait_until
from bench.soak.traffic import new_event
from testbed.arm import Arm

_REQUESTS, _EVENTS = 15, 100
_PATIENCE = 60.0  # seconds, for saves: Azurite saves what has changed every five
_HANG = 25.0  # seconds, less than the acknowledgement timeout: nothing ends before the kill


def steps(_: Random) -> list[Step[AzuriteDeployment]]:
    """Return a step that kills after the last answer, one later, and one when all is saved."""
    return [
        Step("Azurite killed after the last answer", _crash(lambda _: None)),
        Step("Azurite killed 3 s later", _crash(lambda _: time.sleep(3))),
        Step("Azurite killed after two saves", _crash(_two_more)),
    ]


def _crash(wait: Callable[[list[float]], object]) -> Callable[[AzuriteDeployment], Attacked]:
    """Make an attack that *waits* before the kill; it is given the times of saves as they come."""

    def attack(deployment: AzuriteDeployment) -> Attacked:
        name, is_over, ledger = f"c-{uuid.uuid4().hex[:12]}", threading.Event(), deployment.ledger
        arm, url = Arm(deployment.url), f"{deployment.traffic.hook}/{name}"
        arm.create_topic(name)
        arm.create_subscription(name, name, url)
        key, tables = arm.key(name), deployment.storage.saved("db_table")
        wait_until(lambda: tables.exists() and url in tables.read_text(), _PATIENCE)
        deployment.on_push = lambda _: is_over.wait(_HANG)
        with _saves(deployment.storage.saved("db_queue")) as saves:
            for _ in range(_REQUESTS):
                events = [(new_event(), [name]) for _ in range(_EVENTS)]
                deployment.traffic.publish(name, key, events)
            wait(saves)
            deployment.storage.kill()
        # A save begins when the one before it has ended: only that has certainly been answered.
        ledger.excuse(since=saves[-2] if len(saves) > 1 else 0.0)
        is_over.set()
        deployment.storage.start()
        return Attacked(1, len(ledger.accepted) + DELIVERIES)  # it forgets deletions as well

    return attack


def _two_more(saves: list[float]) -> None:
    enough = len(saves) + 2
    wait_until(lambda: len(saves) >= enough, _PATIENCE)


@contextmanager
def _saves(file: Path) -> Iterator[list[float]]:
    """Keep the times at which *file* was replaced, as long as the block runs."""
    saves, is_over = list[float](), threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            with suppress(OSError):
                if (at := file.stat().st_mtime) not in saves[-1:]:
                    saves.append(at)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield saves
    finally:
        is_over.set()
        thread.join()
