"""Runs hosts, storage behind a proxy, publishers and subscribers, and plays attacks on them."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from bench.soak.ledger import Ledger, LedgerSums, digest, events_in
from bench.soak.storage import Storage, running_storage
from bench.soak.traffic import (
    ATTEMPTS,
    SUBSCRIPTIONS,
    TOPIC,
    Traffic,
    container_of,
    subscribe,
)
from devhost.azurite import ACCOUNT
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.name_server import FOUND, running_name_server
from testbed.storage_proxy import StorageRequest
from testbed.subscriber import Push, running_subscriber

ROOT = Path(__file__).parents[2]
PATIENCE = 180.0  # seconds in which nothing happens, until what waits is taken to hang
HIDDEN = 4  # seconds that a received message is hidden: what a killed host had comes back then
_COPY = 30  # seconds: the app may want back what it hides for longer
SETTINGS = {
    "PUSHGRID_TIME_SCALE": "120",
    "PUSHGRID_CACHE_SECONDS": "1",
    "PUSHGRID_WAKE_SCHEDULE": "* * * * * *",
    "PUSHGRID_DEADLETTER_SCHEDULE": "* * * * * *",
    "AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:00.200",
    "AzureFunctionsJobHost__extensions__queues__visibilityTimeout": "00:00:02",
    "AzureFunctionsJobHost__singleton__listenerLockRecoveryPollingInterval": "00:00:01",
}


class Attacked(NamedTuple):
    """
    How many attacks took place, and what may come again.

    Deliveries that a killed host made before its end may come again with its messages. What else
    may come again is seen at the proxy: messages that are received again, or stored without the
    host learning of it.
    """

    runs: int
    messages: int = 0  # that a killed host may have stored for later


class Stage(NamedTuple):
    """What a deployment of the app has; its endpoints have addresses or names."""

    root: Path = ROOT  # of the app
    hosts: int = 1
    is_on_disk: bool = False
    has_names: bool = False
    settings: Mapping[str, str] = MappingProxyType({})
    options: tuple[str, ...] = ()  # of the hosts


class Step(NamedTuple):
    """One run: an attack is played on a deployment whose publishers are paused."""

    row: str
    attack: Callable[[SoakDeployment], Attacked]


@dataclass(slots=True, kw_only=True)
class SoakDeployment:
    """A running deployment."""

    chance: random.Random  # of its scenario and round
    storage: Storage
    hosts: list[RunningHost] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    traffic: Traffic = field(init=False)
    on_push: Callable[[Push], object] | None = None
    is_silent: threading.Event = field(default_factory=threading.Event)
    _stack: ExitStack
    _settings: dict[str, str]
    _stage: Stage
    _seen: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def url(self) -> str:
        """Where one of the hosts listens; a port where none does if all are dead."""
        alive = [host for host in self.hosts if host.process.poll() is None]
        return self.chance.choice(alive or self.hosts).url

    def play(self, step: Step) -> LedgerSums:
        """Attack, then wait until everything has come to its end."""
        time_to_live = 24 * 3600 / float(self._settings["PUSHGRID_TIME_SCALE"])
        self.ledger = Ledger(attempts=ATTEMPTS, time_to_live=time_to_live)
        before = self.storage.proxy.doubled
        attacked = step.attack(self)
        self.storage.proxy.attack = self.on_push = None
        is_queue_empty = self.settle()
        return self.ledger.row(
            step.row,
            runs=attacked.runs,
            messages=attacked.messages + self.storage.proxy.doubled - before,
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

    def start_host(self) -> RunningHost:
        settings = host_settings(self.storage.proxy.azurite, **self._settings)
        options = ("--invisibility", str(HIDDEN), *self._stage.options)
        host = running_host(settings, options=options, root=self._stage.root)
        return self._stack.enter_context(host)

    def restart_hosts(self) -> None:
        """Start a host for each one that has ended, whose locks have expired meanwhile."""
        dead = [place for place, host in enumerate(self.hosts) if host.process.poll() is not None]
        if len(dead) == len(self.hosts):
            self.storage.expire_locks()
        for place in dead:
            self.hosts[place] = self.start_host()

    def kill_hosts(self) -> None:
        """End them as they are: nobody waits for what is on its way."""
        for host in self.hosts:
            host.kill()

    def kill_and_restart(self) -> int:
        """Kill all hosts and start others; return how many messages there were between."""
        self.kill_hosts()
        messages = self.storage.messages()
        self.restart_hosts()
        return messages

    def settle(self) -> bool:
        """Wait for the ends; return whether no message is left that could still be one."""
        seen, since, empty = (0, 0), time.monotonic(), 0
        while time.monotonic() - since < PATIENCE:
            messages = self.storage.messages()
            self._collect_dead_letters()
            empty = 0 if messages else empty + 1
            if empty == 3 or (empty and not self.ledger.open):
                return True
            if (now := (messages, self.ledger.entries)) != seen:
                seen, since = now, time.monotonic()
            time.sleep(0.8)
        return False

    def _collect_dead_letters(self) -> None:
        names = {container_of(each): each for each in SUBSCRIPTIONS} | {"poison": "poison"}
        with self.storage.blobs() as blobs:
            for container in [each.name for each in blobs.list_containers() if each.name in names]:
                client, name = blobs.get_container_client(container), names[container]
                for path in {*client.list_blob_names()} - self._seen[name]:
                    self._seen[name].add(path)
                    for found in events_in(client.download_blob(path).readall()):
                        if name == "poison":
                            self.ledger.end([("poison", digest(found["body"]))])
                        else:
                            self.ledger.bury(name, found, time.time())

    def redirect(self, request: StorageRequest) -> str:
        """
        Spend a part of the short waits on ``waiting``, and return some messages as if poisoned.

        The app does both only after minutes. Longer waits may be those of messages that it means to
        delete or to shrink where it put them. What timers receive comes back as early as what the
        host received.
        """
        target = request.target
        query = parse_qs(urlsplit(target).query)
        hidden = int(query.get("visibilitytimeout", ["0"])[0])
        if (
            request.kind == "queue put retries"
            and 0 < hidden < _COPY
            and self.chance.random() < 0.4
        ):
            return target.replace("/retries/", "/waiting/")
        if request.kind == "queue put deliveries" and self.chance.random() < 0.04:
            return target.replace("/deliveries/", "/deliveries-poison/")
        if request.verb != "POST" and hidden > HIDDEN:
            return target.replace(f"visibilitytimeout={hidden}", f"visibilitytimeout={HIDDEN}")
        return target


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait at most *seconds*; return whether *condition* became true."""
    ends = time.monotonic() + seconds
    while not (truth := condition()) and time.monotonic() < ends:
        time.sleep(0.05)
    return truth


@contextmanager
def running_deployment(stage: Stage, chance: random.Random) -> Iterator[SoakDeployment]:
    """Run a deployment whose topic and subscriptions exist, until the block ends."""
    with ExitStack() as stack:
        storage = stack.enter_context(running_storage(is_on_disk=stage.is_on_disk))
        is_silent = threading.Event()
        names = stack.enter_context(
            running_name_server(lambda _: None if is_silent.is_set() else FOUND)
        )
        made = SoakDeployment(
            chance=chance,
            storage=storage,
            is_silent=is_silent,
            _stack=stack,
            _stage=stage,
            _settings={**SETTINGS, **stage.settings, "PUSHGRID_NAME_SERVERS": f"127.0.0.1:{names}"},
        )
        storage.proxy.rewrite = made.redirect
        # The queues are those to which messages are redirected.
        storage.create(map(container_of, SUBSCRIPTIONS), ("waiting", "deliveries-poison"))
        hook = stack.enter_context(running_subscriber(made.answer)).url
        for _ in range(stage.hosts):
            made.hosts.append(made.start_host())
        stack.callback(made.kill_hosts)
        arm = Arm(made.url)
        subscribe(arm, ACCOUNT, lambda name: f"{_named(hook, name, stage)}/{name}")
        made.traffic = Traffic(
            url=lambda: made.url, key=arm.key(TOPIC), hook=hook, ledger=lambda: made.ledger
        )
        with made.traffic.running():
            yield made


def _named(hook: str, name: str, stage: Stage) -> str:
    return hook.replace("127.0.0.1", f"{name}.soak.test") if stage.has_names else hook
