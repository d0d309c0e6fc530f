"""The Functions app on Azurite: hosts, storage behind a proxy."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from azure.core.exceptions import ResourceExistsError
from azure.data.tables import TableServiceClient

from bench.soak.ledger import DELIVERIES, digest, events_in
from bench.soak.soak_deployment import SETTINGS, SoakDeployment
from bench.soak.storage import Storage, running_storage
from bench.soak.traffic import SUBSCRIPTIONS, container_of
from devhost.azurite import ACCOUNT
from devhost.process import RunningHost, running_host
from testbed.host_settings import host_settings
from testbed.name_server import FOUND, running_name_server
from testbed.storage_proxy import Attack, Failure, StorageRequest
from testbed.subscriber import running_subscriber

ROOT = Path(__file__).parents[2]
HIDDEN = 4  # seconds that a received message is hidden: what a killed host had comes back then
_COPY = 30  # seconds: the app may want back what it hides for longer
_SETTINGS = {
    **SETTINGS,
    "PUSHGRID_WAKE_SCHEDULE": "* * * * * *",
    "PUSHGRID_DEADLETTER_SCHEDULE": "* * * * * *",
    "AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:00.200",
    "AzureFunctionsJobHost__extensions__queues__visibilityTimeout": "00:00:02",
    "AzureFunctionsJobHost__singleton__listenerLockRecoveryPollingInterval": "00:00:01",
}


class Stage(NamedTuple):
    """What a deployment of the app has; its endpoints have addresses or names."""

    root: Path = ROOT  # of the app
    hosts: int = 1
    is_on_disk: bool = False
    has_names: bool = False
    settings: Mapping[str, str] = MappingProxyType({})
    options: tuple[str, ...] = ()  # of the hosts

    @contextmanager
    def deployed(self, chance: random.Random) -> Iterator[AzuriteDeployment]:
        """Run it on an Azurite of its own."""
        with ExitStack() as stack:
            storage = stack.enter_context(running_storage(is_on_disk=self.is_on_disk))
            is_silent = threading.Event()
            names = stack.enter_context(
                running_name_server(lambda _: None if is_silent.is_set() else FOUND)
            )
            settings = {**_SETTINGS, **self.settings, "PUSHGRID_NAME_SERVERS": f"127.0.0.1:{names}"}
            made = AzuriteDeployment(
                chance=chance,
                time_scale=float(settings["PUSHGRID_TIME_SCALE"]),
                account=ACCOUNT,
                storage=storage,
                is_silent=is_silent,
                _stack=stack,
                _stage=self,
                _settings=settings,
            )
            storage.proxy.rewrite = made.redirect
            # The queues are those to which messages are redirected.
            storage.create(map(container_of, SUBSCRIPTIONS), ("waiting", "deliveries-poison"))
            hook = stack.enter_context(running_subscriber(made.answer)).url
            for _ in range(self.hosts):
                made.hosts.append(made.start_host())
            stack.callback(made.kill)
            made.begin(hook, lambda name: f"{_named(hook, name, self)}/{name}")
            with made.traffic.running():
                yield made


@dataclass(kw_only=True)
class AzuriteDeployment(SoakDeployment):
    """Running hosts on one storage."""

    storage: Storage
    hosts: list[RunningHost] = field(default_factory=list)
    is_silent: threading.Event = field(default_factory=threading.Event)
    _stack: ExitStack
    _settings: dict[str, str]
    _stage: Stage
    _seen: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def url(self) -> str:
        """Where one of the hosts listens."""
        alive = [host for host in self.hosts if host.process.poll() is None]
        return self.chance.choice(alive or self.hosts).url

    @property
    def process(self) -> Popen[str]:
        return self.hosts[0].process

    @property
    def doubled(self) -> int:
        """Those of messages that are received again, or stored without the host learning of it."""
        return self.storage.proxy.doubled * DELIVERIES

    def repeatable(self) -> int:
        """Those of all messages: a host may have received them, or stored them for later."""
        return self.messages() * DELIVERIES

    def messages(self) -> int:
        return self.storage.messages()

    def dead_letters(self, container: str) -> list[dict[str, Any]]:
        return self.storage.dead_letters(container)

    def collect(self) -> None:
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

    def kill_at(self, kind: str, side: str, place: int) -> None:
        """At a request to storage; *kind* is that of `StorageRequest`."""
        self.storage.proxy.attack = kill_at(kind, side, place, self.hosts[0])
        self._let_housekeeping_run()

    def calm(self) -> None:
        self.storage.proxy.attack = None

    def start_host(self) -> RunningHost:
        settings = host_settings(self.storage.proxy.azurite, **self._settings)
        options = ("--invisibility", str(HIDDEN), *self._stage.options)
        host = running_host(settings, options=options, root=self._stage.root)
        return self._stack.enter_context(host)

    def restart(self) -> None:
        """Start a host for each one that has ended, whose locks have expired meanwhile."""
        dead = [place for place, host in enumerate(self.hosts) if host.process.poll() is not None]
        if len(dead) == len(self.hosts):
            self.storage.expire_locks()
        for place in dead:
            self.hosts[place] = self.start_host()

    def kill(self) -> None:
        for host in self.hosts:
            host.kill()

    def _let_housekeeping_run(self) -> None:
        """Let the last housekeeping be two hours ago, and leave a payload that has expired."""
        with self.storage.blobs() as blobs:
            payloads = blobs.get_container_client("payloads")
            with suppress(ResourceExistsError):  # The app may make it at the same moment.
                payloads.create_container()
            payloads.upload_blob("2026010100/expired", b"{}", overwrite=True)
        now = datetime.now(UTC)
        last, paused = now - timedelta(hours=2), now - timedelta(hours=1)
        row = {
            "PartitionKey": "state",
            "RowKey": "housekeeping",
            "document": f'{{"lastRun":"{last.isoformat()}","holdUntil":"{paused.isoformat()}"}}',
        }
        connection = self.storage.azurite.connection_string
        with TableServiceClient.from_connection_string(connection) as tables:
            tables.get_table_client("topics").upsert_entity(row)

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


def kill_at(
    kind: str, side: str, place: int, victim: RunningHost
) -> Callable[[StorageRequest], Attack | None]:
    """Return what kills a host at the request of *kind* with this *place*, from 1."""
    left = [place]

    def at(request: StorageRequest) -> Attack | None:
        if request.kind != kind or victim.process.poll() is not None:
            return None
        left[0] -= 1
        if left[0]:
            return None
        if side == "before":
            victim.kill()
            return Attack(Failure.RESET)
        return Attack(Failure.UNANSWERED, victim.kill)

    return at


def _named(hook: str, name: str, stage: Stage) -> str:
    return hook.replace("127.0.0.1", f"{name}.soak.test") if stage.has_names else hook
