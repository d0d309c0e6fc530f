"""Events into storage queues: from the ARM document to a function that a message triggers."""

from __future__ import annotations

import json
import os
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.storage.queue import QueueClient

from devhost.azurite import ACCOUNT, Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm, queue_destination
from testbed.host_settings import host_settings
from testbed.storage_proxy import (
    Attack,
    Failure,
    StorageProxy,
    StorageRequest,
    running_storage_proxy,
)
from testbed.subscriber import PATIENCE
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import an_event, send
from tests.e2e.waiting import eventually

SCALE = 300
OUTAGE = 30 * 60 / SCALE  # seconds
EVENTS, AT_ONCE = int(os.environ.get("QUEUE_EVENTS", "125")), 125  # for each fault
REFUSED, THROTTLED = 20, 60  # puts
FAULTS = ("missing", "throttled", "refused", "outage")
FUNCTION = """
import json, logging
def main(message):
    logging.info("got %s", json.loads(message.get_body())["id"])
"""
TRIGGER = {"type": "queueTrigger", "direction": "in", "name": "message"}


@pytest.fixture(scope="module")
def proxy(own_azurite: Azurite) -> Iterator[StorageProxy]:
    with running_storage_proxy(own_azurite) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def host(proxy: StorageProxy) -> Iterator[RunningHost]:
    settings = host_settings(proxy.azurite, PUSHGRID_TIME_SCALE=str(SCALE))
    with running_host(settings) as running:
        yield running


def made(azurite: Azurite, name: str) -> QueueClient:
    queue = QueueClient.from_connection_string(azurite.connection_string, name)
    queue.create_queue()
    return queue


def taken(queue: QueueClient) -> set[str]:
    """Return the events of all messages that are there."""
    found = queue.receive_messages(messages_per_page=32, visibility_timeout=3600)
    return {json.loads(b64decode(each.content))["id"] for each in found}


def test_a_function_with_a_queue_trigger_reads_what_was_published(
    arm: Arm, own_azurite: Azurite, proxy: StorageProxy, name: str, tmp_path: Path
):
    """Each event is one put, whatever the function needs to read it."""
    made(own_azurite, name)
    arm.create_topic(name)
    arm.create_subscription(name, "into-queue", destination=queue_destination(ACCOUNT, name))
    events = [an_event() for _ in range(20)]
    (tmp_path / "host.json").write_text('{"version": "2.0"}')
    (tmp_path / "read").mkdir()
    bindings = [TRIGGER | {"queueName": name, "connection": "AzureWebJobsStorage"}]
    (tmp_path / "read" / "function.json").write_text(json.dumps({"bindings": bindings}))
    (tmp_path / "read" / "__init__.py").write_text(FUNCTION)
    got: list[str] = []

    def on_line(line: str) -> None:
        got.extend(line.split("got ")[1:])

    settings = {"AzureWebJobsStorage": own_azurite.connection_string}
    with running_host(settings, root=tmp_path, on_line=on_line):
        send(arm.url, name, arm.key(name), events)
        eventually(lambda: sorted(map(str.strip, got)), sorted(each.id for each in events))

    assert proxy.requests[f"queue put {name}"] == len(events)


class Attacked:
    """A topic with a subscription for each fault, into a queue that has this fault."""

    def __init__(self, name: str, azurite: Azurite) -> None:
        self.name = name
        self.letters = DeadLetters.into_a_new_container(azurite)
        self.ends_at = 0.0  # of the outage
        self._azurite = azurite
        self._queues = {fault: self.made(fault) for fault in FAULTS[1:]}
        self._puts: Counter[str] = Counter()

    def made(self, fault: str) -> QueueClient:
        return made(self._azurite, f"{self.name}-{fault}")

    def rewritten(self, request: StorageRequest) -> str:
        """Have storage refuse the first puts into a queue: their signature is another's."""
        kind = f"queue put {self.name}-refused"
        self._puts[request.kind] += 1
        is_refused = request.kind == kind and self._puts[kind] <= REFUSED
        return f"{request.target}&numofmessages=1" if is_refused else request.target

    def attack(self, request: StorageRequest) -> Attack | None:
        is_busy = self._puts[request.kind] % 3 == 0 and self._puts[request.kind] <= THROTTLED
        if request.kind == f"queue put {self.name}-throttled" and is_busy:
            return Attack(Failure.BUSY)
        if request.kind == f"queue put {self.name}-outage" and time.monotonic() < self.ends_at:
            return Attack(Failure.RESET)
        return None

    def end_outage(self) -> None:
        time.sleep(max(0.0, self.ends_at - time.monotonic()))
        self._queues["missing"] = self.made("missing")

    def received(self) -> dict[str, set[str]]:
        """Return the events of new messages, by fault."""
        return {fault: taken(queue) for fault, queue in self._queues.items()}

    def dead(self) -> dict[str, set[str]]:
        """Return the events of dead letters, by fault."""
        found: dict[str, set[str]] = {fault: set() for fault in FAULTS}
        for path in self.letters.container.list_blob_names():
            records = json.loads(self.letters.container.download_blob(path).readall())
            found[path.split("/")[0].lower()] |= {each["id"] for each in records}
        return found


def test_every_event_is_in_the_queue_or_in_a_dead_letter(
    arm: Arm, own_azurite: Azurite, proxy: StorageProxy, name: str
):
    """
    Five hundred deliveries; the outage takes half an hour of scaled time.

    ``QUEUE_EVENTS=1250`` makes it 5,000. Most of them are held, and come back at the pace of their
    endpoint (docs/architecture.md), some 16 a second for each queue: that takes two minutes.
    """
    attacked = Attacked(name, own_azurite)
    arm.create_topic(name)
    for fault in FAULTS:
        destination = queue_destination(ACCOUNT, f"{name}-{fault}")
        dead = attacked.letters.destination
        arm.create_subscription(name, fault, destination=destination, deadLetterDestination=dead)
    events = [an_event() for _ in range(EVENTS)]
    attacked.ends_at = time.monotonic() + OUTAGE
    proxy.attack, proxy.rewrite = attacked.attack, attacked.rewritten
    for start in range(0, EVENTS, AT_ONCE):
        send(arm.url, name, arm.key(name), events[start : start + AT_ONCE])
    attacked.end_outage()

    ids, found = {each.id for each in events}, {fault: set[str]() for fault in FAULTS}

    def left() -> dict[str, int]:
        for fault, new in attacked.received().items():
            found[fault] |= new
        dead = attacked.dead()
        return {fault: len(ids - found[fault] - dead[fault]) for fault in FAULTS}

    # Held deliveries come back at their own pace: only what stands still is lost.
    before, since = EVENTS * len(FAULTS), time.monotonic()
    while (now := sum(left().values())) and time.monotonic() < since + PATIENCE:
        before, since = (now, time.monotonic()) if now < before else (before, since)
        time.sleep(1)
    assert left() == dict.fromkeys(FAULTS, 0)

    dead = {fault: len(each) for fault, each in attacked.dead().items()}
    assert dead == dict.fromkeys(FAULTS, 0) | {"refused": REFUSED}
    assert proxy.requests[f"queue create {name}-missing"] == 0
