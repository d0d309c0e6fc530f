"""Who subscribes to the storage account is told what other programs do to its blobs."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.mgmt.eventgrid import models as m
from azure.storage.blob import BlobBlock, BlobServiceClient, ContainerClient, ContentSettings

from devhost.azurite import ACCOUNT, KEY, Azurite, running_azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm, dead_letter_destination
from testbed.host_settings import host_settings
from testbed.storage_proxy import Attack, Failure, StorageRequest, running_storage_proxy
from testbed.subscriber import PATIENCE, Subscriber, answers
from tests.e2e.managing import GROUP, SUBSCRIPTION, management_client, webhook
from tests.e2e.publishing import an_event, run_javascript, send

SOURCE = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
    f"/providers/Microsoft.Storage/storageAccounts/{ACCOUNT}"
)
# What a killed host had comes again after three seconds.
OPTIONS = ("--blob-events", "--invisibility", "3")


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
    subscribe(host, handler, container.container_name, name)

    def events(count: int) -> list[dict[str, Any]]:
        assert handler.wait_for(lambda pushes: len(pushes) >= count), handler.pushes
        found = [each.events[0] for each in handler.pushes]
        return sorted(found, key=lambda each: str(each["data"]["sequencer"]))

    return events


def subscribe(host: RunningHost, handler: Subscriber, container: str, name: str) -> None:
    begins = f"/blobServices/default/containers/{container}/"
    wanted = m.EventSubscription(
        destination=webhook(handler),
        filter=m.EventSubscriptionFilter(subject_begins_with=begins),
    )
    with management_client(host.url) as client:
        client.event_subscriptions.begin_create_or_update(SOURCE, name, wanted).result()


def without_repeats(host: RunningHost, container: str) -> ContainerClient:
    """Give a container to a program that makes each request once."""
    return BlobServiceClient(host.blob_url, credential=KEY, retry_total=0).get_container_client(
        container
    )


def blobs_of(handler: Subscriber) -> set[tuple[str, str]]:
    """Return operation and name of what a handler was told of."""
    events = [each.events[0] for each in list(handler.pushes)]
    return {(api, name) for api, name, _ in changes(events)}


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


def test_what_was_answered_before_a_host_was_killed_is_told(
    subscriber: Callable[..., Subscriber], name: str
):
    """An upload that a client repeats, since it had no answer, is told of as well."""
    handler, done = subscriber(), threading.Semaphore(0)
    with running_azurite() as azurite:
        settings = host_settings(azurite, PUSHGRID_TIME_SCALE="100")
        with running_host(settings, options=OPTIONS) as host:
            without_repeats(host, name).create_container()
            subscribe(host, handler, name, name)

            def upload(client: int) -> tuple[list[str], str]:
                container, answered = without_repeats(host, name), list[str]()
                while True:
                    blob = f"{client}-{len(answered)}"
                    try:
                        container.upload_blob(blob, b"x")
                    except AzureError:
                        return answered, blob
                    answered.append(blob)
                    done.release()

            with ThreadPoolExecutor(8) as clients:
                running = [clients.submit(upload, number) for number in range(8)]
                for _ in range(100):
                    assert done.acquire(timeout=PATIENCE)
                host.kill()
                uploaded = [each.result() for each in running]

        with running_host(settings, options=OPTIONS) as host:
            for _, blob in uploaded:
                without_repeats(host, name).upload_blob(blob, b"x", overwrite=True)
            stored = {each.name for each in without_repeats(host, name).list_blobs()}
            assert stored == {blob for answered, last in uploaded for blob in (*answered, last)}
            expected = {("PutBlob", blob) for blob in stored}
            assert handler.wait_for(lambda _: blobs_of(handler) >= expected), expected
    assert blobs_of(handler) == expected


def test_a_deletion_that_was_not_told_of_when_the_host_was_killed_is_lost(
    subscriber: Callable[..., Subscriber], name: str
):
    """The host dies between Azurite's answer and the stored event, as the guide says."""
    handler = subscriber()
    with running_azurite() as azurite, running_storage_proxy(azurite) as proxy:
        settings = host_settings(proxy.azurite, PUSHGRID_TIME_SCALE="100")
        with running_host(settings, options=OPTIONS) as host:
            container = without_repeats(host, name)
            container.create_container()
            subscribe(host, handler, name, name)
            container.upload_blob("x", b"x")
            container.upload_blob("y", b"y")
            assert handler.wait_for(lambda pushes: len(pushes) >= 2)

            def attack(request: StorageRequest) -> Attack | None:
                if request.kind != "queue put deliveries":
                    return None
                host.process.kill()
                return Attack(Failure.RESET)

            proxy.attack = attack
            with pytest.raises(AzureError):
                container.delete_blob("x")
            proxy.attack = None

        with running_host(settings, options=OPTIONS) as host:
            container = without_repeats(host, name)
            with pytest.raises(ResourceNotFoundError):
                container.delete_blob("x")
            container.delete_blob("y")
            assert handler.wait_for(lambda _: ("DeleteBlob", "y") in blobs_of(handler))
    assert blobs_of(handler) == {("PutBlob", "x"), ("PutBlob", "y"), ("DeleteBlob", "y")}
