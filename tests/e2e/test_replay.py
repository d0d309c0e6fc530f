"""A replay of 1,000 dead letters that Azure Event Grid wrote, on hosts that are killed."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import ADMIN_KEY, Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Push, Subscriber
from tests.commands import Run, runner
from tests.e2e.dead_letters import DeadLetters

BLOBS, RECORDS = 10, 100
RATE = 80  # events a second: two steps
SOON = ("--invisibility", "3")  # seconds after which what a killed host had comes again


def letter(number: int) -> dict[str, Any]:
    """Build a dead letter as the contract shows those of Event Grid (§4.2)."""
    return {
        "id": f"a-{number}",
        "topic": "/subscriptions/s/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders",
        "subject": f"/orders/{number}",
        "eventType": "Shop.OrderPlaced",
        "eventTime": "2025-01-02T03:04:05Z",
        "dataVersion": "1.0",
        "metadataVersion": "1",
        "data": {"total": 12.5},
        "deadLetterReason": "MaxDeliveryAttemptsExceeded",
        "deliveryAttempts": 5,
        "lastDeliveryOutcome": "TimedOut",
        "lastHttpStatusCode": 408,
        "publishTime": "2025-01-02T03:04:06.1234567Z",
        "lastDeliveryAttemptTime": "2025-01-02T03:11:06.7654321Z",
    }


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


def test_a_replay_survives_two_kills(
    own_azurite: Azurite,
    dead_letters: DeadLetters,
    subscriber: Callable[..., Subscriber],
    run: Run,
):
    receiver = subscriber()
    upload(dead_letters)

    def has(count: int) -> Callable[[list[Push]], bool]:
        return lambda pushes: len(ids(pushes)) >= count

    with killed_host(own_azurite) as host:
        Arm(host.url).create_topic("orders")
        Arm(host.url).create_subscription("orders", "orders-to-crm", receiver.url)
        options = ("--to", "orders/orders-to-crm", "--rate", str(RATE), "--no-wait", "--json")
        on = ("--url", host.url, "--key", ADMIN_KEY)
        container = dead_letters.container.container_name
        job = run("dead-letters", "replay", "--container", container, *options, *on).document
        assert receiver.wait_for(has(100))
    with killed_host(own_azurite) as host:
        assert receiver.wait_for(has(400))
    with running_host(host_settings(own_azurite), options=SOON) as host:
        assert receiver.wait_for(has(BLOBS * RECORDS), 60)
        on = ("--url", host.url, "--key", ADMIN_KEY)
        again = run("dead-letters", "replay", "--container", container, *options[:2], "--json", *on)
        first = next(
            each
            for each in run("dead-letters", "jobs", "--json", *on).document
            if each["id"] == job["id"]
        )

    assert (first["state"], first["replayed"]) == ("Done", BLOBS * RECORDS)
    assert again.document["skipped"] == {"ReplayedBefore": BLOBS * RECORDS}
    assert set(ids(receiver.pushes)) == {f"a-{number}" for number in range(BLOBS * RECORDS)}
    # What a kill repeats are pushes under way, of at most the 64 of each message, and told batches.
    systems = Counter(push.headers["aeg-output-event-id"] for push in receiver.pushes)
    assert len(systems) == BLOBS * RECORDS
