"""Who subscribes to the storage account is told what other programs do to its blobs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.mgmt.eventgrid import models as m
from azure.storage.blob import BlobBlock, BlobServiceClient, ContainerClient, ContentSettings

from devhost.azurite import ACCOUNT, KEY, Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm, dead_letter_destination
from testbed.host_settings import host_settings
from testbed.subscriber import Subscriber, answers
from tests.e2e.managing import GROUP, SUBSCRIPTION, management_client, webhook
from tests.e2e.publishing import an_event, run_javascript, send

SOURCE = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
    f"/providers/Microsoft.Storage/storageAccounts/{ACCOUNT}"
)


@pytest.fixture(scope="module")
def host(own_azurite: Azurite) -> Iterator[RunningHost]:
    settings = host_settings(own_azurite, PUSHGRID_TIME_SCALE="100")
    with running_host(settings, options=["--blob-events"]) as running:
        yield running


@pytest.fixture
def account(host: RunningHost) -> Iterator[BlobServiceClient]:
    """Give the account as programs of users see it."""
    with BlobServiceClient(host.blob_url, credential=KEY) as client:
        yield client


@pytest.fixture
def container(account: BlobServiceClient, name: str) -> ContainerClient:
    return account.create_container(name)


@pytest.fixture
def told(
    host: RunningHost, container: ContainerClient, subscriber: Callable[..., Subscriber], name: str
) -> Callable[[int], list[dict[str, Any]]]:
    """Subscribe to the container; return its first events, once there are so many."""
    handler = subscriber()
    begins = f"/blobServices/default/containers/{container.container_name}/"
    wanted = m.EventSubscription(
        destination=webhook(handler),
        filter=m.EventSubscriptionFilter(subject_begins_with=begins),
    )
    with management_client(host.url) as client:
        client.event_subscriptions.begin_create_or_update(SOURCE, name, wanted).result()

    def events(count: int) -> list[dict[str, Any]]:
        assert handler.wait_for(lambda pushes: len(pushes) >= count), handler.pushes
        found = [each.events[0] for each in handler.pushes]
        return sorted(found, key=lambda each: str(each["data"]["sequencer"]))

    return events


def changes(events: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Return operation, name and size of each blob."""
    found = [(each["data"], each["subject"].partition("/blobs/")[2]) for each in events]
    return [(data["api"], name, data["contentLength"]) for data, name in found]


def test_the_sdk_for_python_creates_and_deletes_blobs(
    container: ContainerClient, told: Callable[[int], list[dict[str, Any]]]
):
    blob = container.get_blob_client("in/grüße 1+2.txt")
    made = blob.upload_blob(b"hello", content_settings=ContentSettings("text/plain"))
    copy = container.get_blob_client("copy")
    copy.start_copy_from_url(blob.url)
    block = str(uuid.uuid4())
    blob.stage_block(block, b"hello, world")
    committed = blob.commit_block_list([BlobBlock(block)])
    blob.delete_blob()
    container.delete_blobs("copy", "missing", raise_on_any_failure=False)

    events = told(5)

    assert changes(events) == [
        ("PutBlob", blob.blob_name, 5),
        ("CopyBlob", "copy", 5),
        ("PutBlockList", blob.blob_name, 12),
        ("DeleteBlob", blob.blob_name, 12),
        ("DeleteBlob", "copy", 5),
    ]
    kinds = [each["eventType"].removeprefix("Microsoft.Storage.") for each in events]
    assert kinds == ["BlobCreated"] * 3 + ["BlobDeleted"] * 2
    urls = [each["data"]["url"] for each in events]
    assert urls == [blob.url, copy.url, blob.url, blob.url, copy.url]
    etags = [each["data"].get("eTag") for each in events]
    assert etags[::2] == [str(each["etag"]).strip('"') for each in (made, committed)] + [None]
    assert [each["data"]["contentType"] for each in events[:2]] == ["text/plain"] * 2
    assert {each["topic"] for each in events} == {SOURCE}
    assert len({each["id"] for each in events}) == len(told(5)) == 5


def test_the_sdk_for_javascript_creates_and_deletes_blobs(
    host: RunningHost, container: ContainerClient, told: Callable[[int], list[dict[str, Any]]]
):
    run = run_javascript(
        "blobs.js",
        {
            "url": host.blob_url,
            "account": ACCOUNT,
            "key": KEY,
            "container": container.container_name,
        },
    )
    assert run.returncode == 0, run.stderr
    did = [json.loads(line) for line in run.stdout.splitlines()]

    events = told(len(did))

    # The requests of a batch are made in no order.
    assert changes(events)[:4] == [(api, name, size) for api, name, size, _ in did[:4]]
    assert sorted(changes(events)) == sorted((api, name, size) for api, name, size, _ in did)
    etags = [each["data"].get("eTag") for each in events[:4]]
    assert etags == [etag.strip('"') or None for *_, etag in did[:4]]


def test_dead_letters_are_told_of_once(
    host: RunningHost,
    arm: Arm,
    container: ContainerClient,
    told: Callable[[int], list[dict[str, Any]]],
    subscriber: Callable[..., Subscriber],
    name: str,
):
    arm.create_topic(name)
    destination = dead_letter_destination(ACCOUNT, container.container_name)
    refusing = subscriber(answers(400)).url
    arm.create_subscription(name, "crm", refusing, deadLetterDestination=destination)
    send(host.url, name, arm.key(name), [an_event()])
    (written,) = told(1)

    container.upload_blob("after", b"")
    events = told(2)

    assert [each["data"]["url"] for each in events[:1]] == [written["data"]["url"]]
    assert changes(events)[1:] == [("PutBlob", "after", 0)]
    assert len(told(2)) == 2
