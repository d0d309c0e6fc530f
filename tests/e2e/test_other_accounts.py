"""Dead letters and events in a storage account beside the app's own."""

from __future__ import annotations

import json
import uuid
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from azure.storage.queue import QueueClient
from requests import HTTPError

from devhost.azurite import Azurite, running_azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm, queue_destination
from testbed.host_settings import host_settings
from testbed.subscriber import Subscriber, answers
from tests.commands import Run
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import an_event, send
from tests.e2e.test_serve import Serve
from tests.e2e.waiting import eventually

OTHER = "archive1"
SCALE = "100"


@pytest.fixture(scope="module")
def other() -> Iterator[Azurite]:
    with running_azurite(account=OTHER) as azurite:
        yield azurite


@pytest.fixture(scope="module")
def host(own_azurite: Azurite, other: Azurite) -> Iterator[RunningHost]:
    settings = host_settings(
        own_azurite,
        PUSHGRID_TIME_SCALE=SCALE,
        PUSHGRID_DEADLETTER_ACCOUNTS=f"{OTHER}=ARCHIVE_CONNECTION",
        ARCHIVE_CONNECTION=other.connection_string,
    )
    with running_host(settings) as running:
        yield running


def test_a_dead_letter_goes_to_the_account_that_its_subscription_names(
    host: RunningHost,
    arm: Arm,
    other: Azurite,
    subscriber: Callable[..., Subscriber],
    pushgrid: Run,
):
    topic = f"archived-{uuid.uuid4().hex[:8]}"
    arm.create_topic(topic)
    receiver = subscriber(answers(400))
    dead_letters = DeadLetters.into_a_new_container(other, account=OTHER)
    destination = dead_letters.destination
    arm.create_subscription(topic, "archived", receiver.url, deadLetterDestination=destination)
    event = an_event()

    send(host.url, topic, arm.key(topic), [event])
    ((path, letters),) = dead_letters.wait_for(1).items()
    (listed,) = pushgrid("dead-letters", "list", "--json").document
    shown = pushgrid("dead-letters", "show", path)

    assert [each["id"] for each in letters] == [event.id]
    assert (listed["topic"], listed["blob"], listed["events"]) == (topic, path, 1)
    assert event.id in shown.out


def test_a_server_of_ones_own_reaches_it_as_well(
    other: Azurite, name: str, tmp_path: Path, subscriber: Callable[..., Subscriber]
):
    """Its own account has another name; a queue there is refused."""
    environ = {
        "PUSHGRID_OWN_ACCOUNT": "mine",
        "PUSHGRID_TIME_SCALE": SCALE,
        "PUSHGRID_DEADLETTER_ACCOUNTS": f"{OTHER}=ARCHIVE",
        "ARCHIVE": other.connection_string,
    }
    queue = QueueClient.from_connection_string(other.connection_string, name)
    queue.create_queue()
    dead_letters = DeadLetters.into_a_new_container(other, account=OTHER)
    receiver = subscriber(answers(400))
    event = an_event()
    with Serve(tmp_path, **environ) as server:
        server.arm.create_topic(name)
        there = dead_letters.destination
        server.arm.create_subscription(name, "archived", receiver.url, deadLetterDestination=there)
        server.arm.create_subscription(name, "worker", destination=queue_destination(OTHER, name))
        with pytest.raises(HTTPError, match="a storage account on Azure"):
            server.arm.create_subscription(name, "own", destination=queue_destination("mine", name))
        send(server.url, name, server.arm.key(name), [event])
        (letters,) = dead_letters.wait_for(1).values()

        def received() -> list[str]:
            return [json.loads(b64decode(each.content))["id"] for each in queue.peek_messages()]

        eventually(received, [event.id])
    assert [each["id"] for each in letters] == [event.id]


def test_an_event_goes_into_a_queue_of_the_account_that_its_subscription_names(
    host: RunningHost, arm: Arm, other: Azurite, own_azurite: Azurite, name: str
):
    """In the app's own account, a queue of this name gets nothing."""
    theirs, own = (
        QueueClient.from_connection_string(each.connection_string, name)
        for each in (other, own_azurite)
    )
    theirs.create_queue()
    own.create_queue()
    arm.create_topic(name)
    arm.create_subscription(name, "worker", destination=queue_destination(OTHER, name))
    event = an_event()

    send(host.url, name, arm.key(name), [event])

    def received() -> list[str]:
        messages = theirs.peek_messages()
        return [json.loads(b64decode(each.content))["id"] for each in messages]

    eventually(received, [event.id])
    assert list(own.peek_messages()) == []
