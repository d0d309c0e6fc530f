"""Plays a scenario of the measuring run: host, counting proxy, publisher and subscriber."""

from __future__ import annotations

import json
import random
import statistics
import string
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import requests
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from bench.load import log_lines
from bench.report import processor_seconds
from devhost.azurite import ACCOUNT, Azurite, running_azurite
from devhost.process import RunningHost, running_host
from shared.adapters.azure_storage.clients import PAYLOADS, POISON
from shared.engine.ports import Queue, Table
from testbed.arm import Arm, dead_letter_destination
from testbed.host_settings import host_settings
from testbed.storage_proxy import running_storage_proxy
from testbed.subscriber import Push, running_subscriber

_ROOT = Path(__file__).parents[1]
_NEVER = "0 0 0 1 1 *"  # a schedule that does not fire: timers are measured separately
_TIMEOUT = 90.0  # seconds for the scenario to end
_QUIET = 3.0  # seconds in which the host deletes its last messages
_LETTERS = string.ascii_letters + string.digits
_TOPIC, _DEAD = "orders", "deadletters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a scenario publishes, and how its endpoint answers."""

    name: str
    events: int = 0
    batch: int = 1
    size: int = 1024  # bytes of an event as published
    subscriptions: int = 1
    failing: float = 0.0  # the share of attempts that get `status`
    status: int = 500
    dead_letters: bool = False
    answers_in: float = 0.0  # seconds
    pause: float = 0.0  # seconds between two requests
    watched: float = 0.0  # seconds to count if nothing is published
    ends: str = "delivered"  # the events are ``delivered``, ``dead`` or ``woken``
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """What a scenario caused."""

    scenario: Scenario
    operations: Counter[str]  # of storage, by kind
    pushes: int  # received
    seconds: float
    cpu: float  # seconds of the whole host
    publish: list[float]  # seconds of each run
    deliver: list[float]  # seconds of each run

    def document(self) -> dict[str, Any]:
        """Return the counts as JSON members; runs as their number and median."""
        members = {name: value for name, value in asdict(self.scenario).items() if value}
        members |= {"pushes": self.pushes, "seconds": round(self.seconds, 1), "cpu": self.cpu}
        for name in ("publish", "deliver"):
            runs: list[float] = getattr(self, name)
            if runs:
                members[f"{name} runs"] = len(runs)
                members[f"{name} seconds"] = round(statistics.median(runs), 4)
        return members | {"operations": dict(sorted(self.operations.items()))}


_FAST = {"PUSHGRID_TIME_SCALE": "60"}
SCENARIOS = (
    Scenario(name="single", events=600),
    Scenario(name="single to ten", events=100, subscriptions=10),
    Scenario(name="hundreds", events=3000, batch=100),
    Scenario(name="hundreds to ten", events=600, batch=100, subscriptions=10),
    Scenario(name="4 KiB in hundreds", events=3000, batch=300, size=4096),
    Scenario(name="16 KiB in tens", events=500, batch=50, size=16384),
    Scenario(name="64 KiB", events=100, size=65536),
    Scenario(name="64 KiB in tens, to three", events=100, batch=10, size=65536, subscriptions=3),
    Scenario(name="failing", events=600, failing=0.2, settings=_FAST),
    Scenario(name="failing in hundreds", events=3000, batch=100, failing=0.2, settings=_FAST),
    Scenario(
        name="failing, no log of attempts",
        events=600,
        failing=0.2,
        settings=_FAST | {"PUSHGRID_ATTEMPT_LOG": "off"},
    ),
    Scenario(
        name="dead letters",
        events=300,
        failing=1.0,
        status=400,
        dead_letters=True,
        ends="dead",
        settings=_FAST | {"PUSHGRID_DEADLETTER_SCHEDULE": "*/20 * * * * *"},
    ),
    Scenario(
        name="long waits",
        events=200,
        failing=1.0,
        status=404,
        ends="woken",
        settings={"PUSHGRID_TIME_SCALE": "4", "PUSHGRID_WAKE_SCHEDULE": "*/10 * * * * *"},
    ),
    Scenario(name="one at a time", events=150, answers_in=0.1, pause=0.3),
    Scenario(name="one at a time, to ten", events=50, subscriptions=10, answers_in=0.1, pause=0.5),
    Scenario(name="64 at a time", events=64 * 25, batch=64, answers_in=0.1, pause=1.5),
    Scenario(
        name="idle",
        watched=300.0,
        settings={
            "PUSHGRID_WAKE_SCHEDULE": "0 * * * * *",
            "PUSHGRID_DEADLETTER_SCHEDULE": "0 */5 * * * *",
        },
    ),
)


def play(scenario: Scenario) -> ScenarioResult:
    """
    Play one scenario on its own host and storage.

    Raises:
        RuntimeError: it did not end in time.
    """
    lines: list[str] = []
    timing = _polling() | {"PUSHGRID_WAKE_SCHEDULE": _NEVER, "PUSHGRID_DEADLETTER_SCHEDULE": _NEVER}
    with ExitStack() as stack:
        azurite = stack.enter_context(_storage())
        proxy = stack.enter_context(running_storage_proxy(azurite))
        settings = host_settings(proxy.azurite, **(timing | scenario.settings))
        host = stack.enter_context(running_host(settings, on_line=lines.append))
        subscriber = stack.enter_context(running_subscriber(_answer(scenario)))
        key = _subscribed(Arm(host.url), scenario, subscriber.url)
        time.sleep(_QUIET)
        lines.clear()
        proxy.requests.clear()
        cpu, began = processor_seconds(host.process.pid), time.monotonic()
        publish = _publish(host, key, scenario)
        time.sleep(scenario.watched)
        _await(scenario, subscriber.pushes, proxy.requests)
        time.sleep(0 if scenario.watched else _QUIET)
        return ScenarioResult(
            scenario=scenario,
            operations=Counter(proxy.requests),
            pushes=len(subscriber.pushes),
            seconds=time.monotonic() - began,
            cpu=round(processor_seconds(host.process.pid) - cpu, 2),
            publish=publish,
            deliver=[line["seconds"] for line in log_lines(lines, "delivery.run")],
        )


def _polling() -> dict[str, str]:
    """Return the setting with which the queues are polled as on Azure, not as on a laptop."""
    queues = json.loads((_ROOT / "host.json").read_text())["extensions"]["queues"]
    name = "AzureFunctionsJobHost__extensions__queues__maxPollingInterval"
    return {name: queues["maxPollingInterval"]}


@contextmanager
def _storage() -> Iterator[Azurite]:
    """Run an Azurite with the queues, containers and tables that the templates create."""
    with running_azurite() as azurite:
        connection = azurite.connection_string
        queues = QueueServiceClient.from_connection_string(connection)
        blobs = BlobServiceClient.from_connection_string(connection)
        tables = TableServiceClient.from_connection_string(connection)
        for queue in Queue:
            queues.create_queue(queue)
        for container in (PAYLOADS, POISON, _DEAD):
            blobs.create_container(container)
        for table in Table:
            tables.create_table(table)
        yield azurite


def _answer(scenario: Scenario) -> Callable[[Push], int]:
    """Fail the share of attempts, pseudo-randomly: an event fails alike in every run."""

    def answer(push: Push) -> int:
        time.sleep(scenario.answers_in)
        seed = push.body[:200] + push.headers["aeg-delivery-count"].encode()
        fails = zlib.crc32(seed) / 2**32 < scenario.failing
        return scenario.status if fails else 200

    return answer


def _subscribed(arm: Arm, scenario: Scenario, url: str) -> str:
    arm.create_topic(_TOPIC)
    properties: dict[str, Any] = {}
    if scenario.dead_letters:
        properties["deadLetterDestination"] = dead_letter_destination(ACCOUNT, _DEAD)
    for number in range(scenario.subscriptions):
        arm.create_subscription(_TOPIC, f"crm-{number}", url, **properties)
    return arm.key(_TOPIC)


def _publish(host: RunningHost, key: str, scenario: Scenario) -> list[float]:
    """Publish one request after the other; return the seconds that each took."""
    chance = random.Random(7)
    took = []
    with requests.Session() as session:
        for start in range(0, scenario.events, scenario.batch):
            events = [an_event(start + i, scenario.size, chance) for i in range(scenario.batch)]
            answer = session.post(
                f"{host.url}/topics/{_TOPIC}/api/events",
                data=json.dumps(events).encode(),
                headers={"aeg-sas-key": key, "Content-Type": "application/json"},
                timeout=60,
            )
            answer.raise_for_status()
            took.append(answer.elapsed.total_seconds())
            time.sleep(scenario.pause)
    return took


def an_event(number: int = 0, size: int = 4096, chance: random.Random | None = None) -> Any:
    """Return an event of *size* bytes with a random text, which hardly compresses."""
    event = {
        "id": f"{number:08}",
        "subject": "/orders/17",
        "eventType": "Shop.OrderPlaced",
        "eventTime": "2026-01-01T00:00:00Z",
        "dataVersion": "1.0",
        "data": {"text": ""},
    }
    chance = chance or random.Random(7)
    missing = max(0, size - len(json.dumps(event)))
    return event | {"data": {"text": "".join(chance.choices(_LETTERS, k=missing))}}


def _ended(scenario: Scenario, pushes: list[Push], operations: Counter[str]) -> bool:
    """Tell whether all published events have reached the scenario's end."""
    deliveries = scenario.events * scenario.subscriptions
    if scenario.ends == "dead":
        return operations["queue delete deadletters"] >= deliveries
    if scenario.ends == "woken":
        put = operations["queue put waiting"]
        return put >= deliveries / 2 and operations["queue delete waiting"] >= put
    answer = _answer(Scenario(name="", failing=scenario.failing, status=scenario.status))
    return sum(answer(push) == 200 for push in list(pushes)) >= deliveries


def _await(scenario: Scenario, pushes: list[Push], operations: Counter[str]) -> None:
    give_up_at = time.monotonic() + _TIMEOUT
    while not _ended(scenario, pushes, operations):
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"{scenario.name}: did not end: {dict(operations)}")
        time.sleep(0.5)
