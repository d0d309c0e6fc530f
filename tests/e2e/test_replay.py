"""A replay of 1,000 dead letters that Azure Event Grid wrote, on hosts that are killed."""

from __future__ import annotations

import html
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from shared.delivery.messages.message import OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from testbed.arm import ADMIN_KEY, Arm
from testbed.host_settings import host_settings
from testbed.storage_proxy import Attack, Failure, StorageRequest, running_storage_proxy
from testbed.subscriber import PATIENCE, Push, Subscriber
from tests.azure_dead_letters import ADDED, EVENT
from tests.commands import Run, runner
from tests.e2e.dead_letters import DeadLetters

BLOBS, RECORDS = 10, 100
RATE = 80  # events a second: two steps
SOON = ("--invisibility", "3")  # seconds after which what a killed host had comes again


def letter(number: int) -> dict[str, Any]:
    return EVENT | ADDED | {"id": f"a-{number}", "subject": f"/orders/{number}"}


def upload(dead_letters: DeadLetters) -> None:
    for blob in range(BLOBS):
        records = [letter(blob * RECORDS + number) for number in range(RECORDS)]
        path = f"ORDERS-TO-CRM/2025/1/2/{blob}/{uuid.uuid4()}.json"
        dead_letters.container.upload_blob(path, json.dumps(records))


@contextmanager
def killed_host(azurite: Azurite) -> Iterator[RunningHost]:
    with running_host(host_settings(azurite), options=SOON) as host:
        yield host
        host.kill()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys)


def ids(pushes: Sequence[Push]) -> Counter[str]:
    return Counter(event["id"] for push in pushes for event in push.events)


def put_ids(request: StorageRequest) -> list[str]:
    """Return the ids of the events that a request puts into a queue."""
    if not request.kind.startswith("queue put"):
        return []
    text = request.body.partition(b"<MessageText>")[2].partition(b"</MessageText>")[0]
    parts = decode(html.unescape(text.decode()))
    if isinstance(parts, ReplayStep | OtherVersion):
        return []
    return [json.loads(each.text)["id"] for part in parts for each in part.deliveries if each.text]


def test_a_replay_survives_two_kills(
    own_azurite: Azurite,
    dead_letters: DeadLetters,
    subscriber: Callable[..., Subscriber],
    run: Run,
):
    receiver = subscriber()
    upload(dead_letters)
    puts, doomed = Counter[str](), list[RunningHost]()

    def watch(request: StorageRequest) -> Attack | None:
        puts.update(found := put_ids(request))
        if found and doomed and puts.total() > RECORDS:
            return Attack(Failure.UNANSWERED, doomed.pop().process.kill)
        return None

    def has(count: int) -> Callable[[list[Push]], bool]:
        return lambda pushes: len(ids(pushes)) >= count

    container = dead_letters.container.container_name
    asked = ("dead-letters", "replay", "--container", container, "--to", "orders/orders-to-crm")
    with running_storage_proxy(own_azurite) as proxy:
        proxy.attack = watch
        with killed_host(proxy.azurite) as host:
            Arm(host.url).create_topic("orders")
            Arm(host.url).create_subscription("orders", "orders-to-crm", receiver.url)
            on = ("--json", "--url", host.url, "--key", ADMIN_KEY)
            job = run(*asked, "--rate", str(RATE), "--no-wait", *on).document
            doomed.append(host)
            host.process.wait(PATIENCE)
        with killed_host(proxy.azurite) as host:
            assert receiver.wait_for(has(400))
        with running_host(host_settings(proxy.azurite), options=SOON) as host:
            assert receiver.wait_for(has(BLOBS * RECORDS))
            on = ("--json", "--url", host.url, "--key", ADMIN_KEY)
            again = run(*asked, *on)
            jobs = run("dead-letters", "jobs", *on).document

    (first,) = (each for each in jobs if each["id"] == job["id"])
    assert (first["state"], first["replayed"]) == ("Done", BLOBS * RECORDS)
    assert again.document["skipped"] == {"ReplayedBefore": BLOBS * RECORDS}
    assert set(ids(receiver.pushes)) == {f"a-{number}" for number in range(BLOBS * RECORDS)}
    # What a kill repeats are pushes under way, of at most the 64 of each message, and told batches.
    assert 0 < puts.total() - BLOBS * RECORDS <= first["repeated"]
    systems = Counter(push.headers["aeg-output-event-id"] for push in receiver.pushes)
    assert len(systems) == BLOBS * RECORDS
