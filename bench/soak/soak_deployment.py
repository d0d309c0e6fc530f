"""What is attacked: a deployment with publishers and subscribers, whatever it stores in."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from subprocess import Popen
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from bench.soak.ledger import Ledger, LedgerSums, events_in
from bench.soak.traffic import ATTEMPTS, SUBSCRIPTIONS, TOPIC, Traffic, subscribe
from testbed.arm import Arm
from testbed.subscriber import Push

PATIENCE = 180.0  # seconds in which nothing happens, until what waits is taken to hang
TIME_SCALE = 120
SETTINGS = {"PUSHGRID_TIME_SCALE": str(TIME_SCALE), "PUSHGRID_CACHE_SECONDS": "1"}

D = TypeVar("D", bound="SoakDeployment")
D_co = TypeVar("D_co", bound="SoakDeployment", covariant=True)


class Attacked(NamedTuple):
    """How many attacks took place, and how many deliveries may come again for that."""

    runs: int
    deliveries: int = 0


class Step(NamedTuple, Generic[D]):
    """One run: an attack is played on a deployment whose publishers are paused."""

    row: str
    attack: Callable[[D], Attacked]


class AnyStage(Protocol[D_co]):
    """What a deployment has."""

    def deployed(self, chance: random.Random) -> AbstractContextManager[D_co]:
        """Run a deployment whose topic and subscriptions exist, until the block ends."""


@dataclass(kw_only=True)
class SoakDeployment(ABC):
    """A running deployment. Attacks kill or stop its *process*, the first one if it has more."""

    chance: random.Random  # of its scenario and round
    time_scale: float = TIME_SCALE
    ledger: Ledger = field(default_factory=Ledger)
    traffic: Traffic = field(init=False)
    on_push: Callable[[Push], object] | None = None
    account: str  # of its dead letters

    # ── What it is ──

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it listens; a port where nobody does if all of it is dead."""

    @property
    @abstractmethod
    def process(self) -> Popen[str]: ...

    @property
    def doubled(self) -> int:
        """How many deliveries may have come again so far although no process was killed."""
        return 0

    @abstractmethod
    def repeatable(self) -> int:
        """Return how many deliveries may come again if the process is killed, or has been."""

    @abstractmethod
    def messages(self) -> int:
        """Return how many messages are stored."""

    @abstractmethod
    def dead_letters(self, container: str) -> list[dict[str, Any]]:
        """Return the records of all blobs of a container."""

    @abstractmethod
    def collect(self) -> None:
        """Enter new dead letters and poison records into the ledger."""

    # ── What is done to it ──

    @abstractmethod
    def kill_at(self, kind: str, side: str, place: int) -> None:
        """
        Have the process killed at the access of *kind* to its store with this *place*, from 1.

        *side*: before it is done, or after it.
        """

    @abstractmethod
    def calm(self) -> None:
        """End all attacks on its store."""

    @abstractmethod
    def kill(self) -> None:
        """End all of it: nobody waits for what is on its way."""

    @abstractmethod
    def restart(self) -> None:
        """Start what has ended."""

    # ── Runs ──

    def begin(self, hook: str, url_of: Callable[[str], str]) -> None:
        """Subscribe the endpoints below *hook*: *url_of* names a subscription's URL."""
        arm = Arm(self.url)
        subscribe(arm, self.account, url_of)
        self.traffic = Traffic(
            url=lambda: self.url, key=arm.key(TOPIC), hook=hook, ledger=lambda: self.ledger
        )

    def play(self, step: Step[Self]) -> LedgerSums:
        """Attack, then wait until everything has come to its end."""
        self.ledger = Ledger(attempts=ATTEMPTS, time_to_live=24 * 3600 / self.time_scale)
        before = self.doubled
        attacked = step.attack(self)
        self.on_push = None
        self.calm()
        is_queue_empty = self.settle()
        return self.ledger.row(
            step.row,
            runs=attacked.runs,
            bound=attacked.deliveries + self.doubled - before,
            is_queue_empty=is_queue_empty,
        )

    def answer(self, push: Push) -> int:
        """Answer as the endpoint of the subscription that the path ends with, and enter it."""
        if self.on_push:
            self.on_push(push)
        name = push.path.rpartition("/")[2]
        status = SUBSCRIPTIONS.get(name, SUBSCRIPTIONS["steady"]).answer(push)
        self.ledger.receive(name, events_in(push.body), status)
        return status

    def kill_and_restart(self) -> int:
        """Kill all of it and start it again; return how many deliveries may come again."""
        self.kill()
        deliveries = self.repeatable()
        self.restart()
        return deliveries

    def settle(self) -> bool:
        """Wait for the ends; return whether no message is left that could still be one."""
        seen, since, empty = (0, 0), time.monotonic(), 0
        while time.monotonic() - since < PATIENCE:
            messages = self.messages()
            self.collect()
            empty = 0 if messages else empty + 1
            if empty == 3 or (empty and not self.ledger.open):
                return True
            if (now := (messages, self.ledger.entries)) != seen:
                seen, since = now, time.monotonic()
            time.sleep(0.8)
        return False


def one_after_the_other(attacks: Sequence[Callable[[D], Attacked]]) -> Callable[[D], Attacked]:
    """Make one attack of several, between which nothing is awaited."""

    def attack(deployment: D) -> Attacked:
        done = [each(deployment) for each in attacks]
        return Attacked(sum(each.runs for each in done), sum(each.deliveries for each in done))

    return attack


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait at most *seconds*; return whether *condition* became true."""
    ends = time.monotonic() + seconds
    while not (truth := condition()) and time.monotonic() < ends:
        time.sleep(0.05)
    return truth
