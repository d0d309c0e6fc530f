"""Storage accounts as sources in users' tests, by the command, and with replays."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pushgrid.testing import Pushgrid
from pushgrid.testing.composition import ACCOUNT
from pushgrid.testing.driven_app import ACCOUNT_ID, GROUP
from pushgrid.testing.subscriber import SubscriberWebhook
from shared.events.notices import WrittenBlob, blob_event
from shared.events.topic import DEPLOYMENT
from tests.builders import a_topic
from tests.commands import Run
from tests.functional.replaying.replays import lose_an_event, replayed

URL = "https://ops.example/"
TOPIC = f"system-{ACCOUNT}"


def subscribe(
    pushgrid: Pushgrid, run: Run, answers: list[int], topic: str = TOPIC, name: str = "ops"
) -> SubscriberWebhook:
    """Subscribe to a source, with dead letters, as an operator does."""
    ops = SubscriberWebhook(answers)
    pushgrid._app.endpoints.connect(URL, ops)
    container = pushgrid._app.new_container()["properties"]["blobContainerName"]
    where = f"--topic {topic} --endpoint {URL} --dead-letter-container {container}"
    created = run("subscription", "create", name, *where.split())
    assert created.code == 0, created
    return ops


@pytest.mark.parametrize(
    ("topic", "source"),
    [(TOPIC, ACCOUNT_ID), (f"system-{DEPLOYMENT}", f"{GROUP}/providers/Pushgrid/deployments/")],
)
def test_the_command_and_the_lists_know_a_source(
    pushgrid: Pushgrid, run: Run, topic: str, source: str
) -> None:
    subscribe(pushgrid, run, [200], topic)

    (listed,) = run("subscription", "list", "--json").document
    assert listed["properties"]["topic"].lower().startswith(source.lower())
    assert topic in run("subscription", "list").out
    assert run("subscription", "show", "ops", "--topic", topic).document == listed
    assert run("subscription", "pause", "ops", "--topic", topic).code == 0


def test_a_lost_event_is_announced_and_a_lost_notice_can_be_replayed(
    pushgrid: Pushgrid, run: Run
) -> None:
    ops = subscribe(pushgrid, run, [400, 200])
    lose_an_event(pushgrid)
    (told,) = [each.request.events[0] for each in ops.attempts]
    assert told["eventType"] == "Microsoft.Storage.BlobCreated"
    assert told["topic"] == ACCOUNT_ID
    assert len(pushgrid._app.dead_letters.blobs) == 2

    job = replayed(pushgrid, topic=TOPIC, subscription="ops")

    assert (job["state"], job["replayed"]) == ("Done", 1)
    assert [each.request.events[0] for each in ops.attempts] == [told, told]
    pushgrid.advance(days=2)
    assert len(ops.attempts) == 2


def test_a_test_tells_of_blobs(pushgrid: Pushgrid) -> None:
    account = pushgrid.storage_account
    images = account.subscribe(
        "images",
        answers=[503, 200],
        filter={
            "subjectBeginsWith": "/blobServices/default/containers/in/",
            "includedEventTypes": ["Microsoft.Storage.BlobCreated"],
        },
    )
    deleted = account.subscribe(
        "deleted", filter={"includedEventTypes": ["Microsoft.Storage.BlobDeleted"]}
    )

    account.change("in", "a b.jpg", size=5, content_type="image/jpeg")
    account.change("in", "a b.jpg", api="DeleteBlob")
    for own in ("payloads", "poison", "azure-webjobs-hosts", "$logs", "$blobchangefeed"):
        account.change(own, "x")
        account.change(own, "x", api="DeleteBlob")
    pushgrid.advance(minutes=1)

    (created,), (gone,) = images.received, deleted.received
    assert created["subject"] == "/blobServices/default/containers/in/blobs/a b.jpg"
    assert created["topic"] == ACCOUNT_ID
    assert created["data"] | {"api": "PutBlob", "contentLength": 5} == created["data"]
    assert created["data"]["contentType"] == "image/jpeg"
    assert created["data"]["url"] == "https://testing.blob.core.windows.net/in/a%20b.jpg"
    assert "eTag" not in gone["data"]
    assert created["data"]["sequencer"] < gone["data"]["sequencer"]
    assert len(images.attempts) == 2


def test_a_change_of_a_blob_is_one_of_event_grid_s(pushgrid: Pushgrid) -> None:
    with pytest.raises(ValueError, match="PutBlob, PutBlockList"):
        pushgrid.storage_account.change("in", "x", api="PutBlock")


def test_the_sequencer_orders_microseconds(pushgrid: Pushgrid) -> None:
    topic = a_topic(name=TOPIC, arm_id=ACCOUNT_ID, keys=())
    at = pushgrid.now.replace(year=2200)
    times = [at + timedelta(microseconds=count) for count in range(1000)]
    blob = WrittenBlob("in", "x", "http://x", "", at, 0, "")
    events = [blob_event(topic, blob._replace(written_at=each), "1", str) for each in times]
    drawn = [each.members["data"]["sequencer"] for each in events]

    assert drawn == sorted(set(drawn))


def test_the_commands_know_system_topics(pushgrid: Pushgrid, run: Run) -> None:
    subscribe(pushgrid, run, [200])
    properties = {"source": ACCOUNT_ID, "topicType": "Microsoft.Storage.StorageAccounts"}
    pushgrid.arm("PUT", "systemTopics/blobs", {"properties": properties})
    where = ("--topic", "systemTopics/blobs")

    created = run("subscription", "create", "nested", *where, "--endpoint", URL)

    assert created.out.startswith("created event subscription nested of systemTopics/blobs: ")
    shown = run("subscription", "show", "nested", *where).document
    assert shown["id"].endswith("/systemTopics/blobs/eventSubscriptions/nested")
    assert run("subscription", "list", *where, "--json").document == [shown]
    listed = run("subscription", "list", "--json").document
    assert {each["name"] for each in listed} == {"ops", "nested"}
    updated = run("subscription", "update", "nested", *where, "--label", "a", "--json").document
    assert updated["properties"]["labels"] == ["a"]

    assert run("subscription", "pause", "nested", *where).code == 0
    assert "paused since" in run("subscription", "show", "nested", *where).err
    (row,) = (line for line in run("subscription", "list").out.splitlines() if "nested" in line)
    assert row.startswith("systemTopics/blobs ")
    assert "paused since" in row

    assert "systemTopics/blobs" in run("topic", "list").out
    assert run("topic", "show", "systemTopics/blobs").document["properties"]["source"] == ACCOUNT_ID
    assert run("topic", "show", TOPIC).document["id"] == ACCOUNT_ID
    assert run("subscription", "delete", "nested", *where, "--yes").code == 0
    assert run("subscription", "list", *where, "--json").document == []
    assert run("topic", "delete", "systemTopics/blobs", "--yes").code == 0


def test_dead_letters_of_a_system_topics_subscription_are_listed(
    pushgrid: Pushgrid, run: Run
) -> None:
    properties = {"source": ACCOUNT_ID, "topicType": "Microsoft.Storage.StorageAccounts"}
    pushgrid.arm("PUT", "systemTopics/blobs", {"properties": properties})
    subscribe(pushgrid, run, [400], "systemTopics/blobs", "nested")
    lose_an_event(pushgrid)
    pushgrid.advance(hours=1)

    listed = run("dead-letters", "list", "--json").document

    (blob,) = (each["blob"] for each in listed if each["subscription"] == "nested")
    (record,) = run("dead-letters", "show", blob, "--json").document
    assert record["event"]["eventType"] == "Microsoft.Storage.BlobCreated"
