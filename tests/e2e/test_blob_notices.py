"""Who subscribes to the dead-letter storage is told of each undelivered event."""

from __future__ import annotations

from collections.abc import Callable

from azure.mgmt.eventgrid import models as m
from azure.storage.blob import BlobClient

from devhost.azurite import ACCOUNT
from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Subscriber, answers
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.managing import GROUP, SUBSCRIPTION, management_client, webhook
from tests.e2e.publishing import an_event, send

TIME_SCALE = 100
SOURCE = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
    f"/providers/Microsoft.Storage/storageAccounts/{ACCOUNT}"
)


def test_the_handler_of_the_dead_letter_storage_is_told_where_the_event_is(
    host: RunningHost,
    arm: Arm,
    dead_letters: DeadLetters,
    subscriber: Callable[..., Subscriber],
    name: str,
):
    container = dead_letters.container.container_name
    handler = subscriber()
    begins = f"/blobServices/default/containers/{container}/"
    wanted = m.EventSubscription(
        destination=webhook(handler),
        filter=m.EventSubscriptionFilter(
            subject_begins_with=begins,
            included_event_types=["Microsoft.Storage.BlobCreated"],
        ),
    )
    with management_client(host.url) as client:
        client.event_subscriptions.begin_create_or_update(SOURCE, name, wanted).result()
    arm.create_topic(name)
    refusing = subscriber(answers(400)).url
    arm.create_subscription(name, "crm", refusing, deadLetterDestination=dead_letters.destination)
    event = an_event()

    send(host.url, name, arm.key(name), [event])
    assert handler.wait_for(bool)
    (told,) = handler.pushes[0].events

    ((path, letters),) = dead_letters.wait_for(1).items()
    assert [each["id"] for each in letters] == [event.id]
    assert told["subject"] == f"{begins}blobs/{path}"
    assert told["topic"] == SOURCE
    found = dead_letters.container.get_blob_client(path).get_blob_properties()
    data = told["data"]
    assert data["eTag"] == found.etag.strip('"')
    assert (data["contentLength"], data["contentType"]) == (found.size, "application/json")
    assert data["blobType"] == found.blob_type
    assert BlobClient.from_blob_url(data["url"]).blob_name == path
