"""Replays of dead letters, on a deployment in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing import Pushgrid
from pushgrid.testing.driven_app import ACCOUNT_ID
from pushgrid.testing.topic import Subscriber
from shared.delivery.messages.message import OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.message_writer import encode_step
from shared.engine.ports import Queue
from shared.engine.replaying import step
from shared.errors import StorageUnreachable
from tests.azure_dead_letters import ADDED, CLOUD_ADDED, CLOUD_EVENT, EVENT, NAMESPACE
from tests.builders import noise
from tests.functional.replaying.replays import AT, AZURE, CRM, PLACED, before, ids, replayed

QUEUE = {
    "endpointType": "StorageQueue",
    "properties": {"resourceId": ACCOUNT_ID, "queueName": "inbox"},
}
IN_TENS = {
    "endpointType": "WebHook",
    "properties": {"maxEventsPerBatch": 10, "preferredBatchSizeInKilobytes": 1024},
}


def test_each_event_goes_to_its_subscription_anew(pushgrid: Pushgrid, crm: Subscriber):
    blobs = dict(pushgrid._app.dead_letters.blobs)

    job = replayed(pushgrid, topic="orders", subscription="crm")

    assert (job["state"], job["blobs"], job["events"], job["replayed"]) == ("Done", 2, 3, 3)
    assert ids(crm) == ["e-1", "e-2", "e-3"]
    assert crm.received[0]["eventTime"] == AT
    assert "deadLetterReason" not in crm.received[0]
    assert {each.request.headers["aeg-delivery-count"] for each in crm.attempts} == {"0"}
    assert pushgrid._app.dead_letters.blobs == blobs


def test_a_queue_gets_them_when_it_is_resumed(pushgrid: Pushgrid):
    """A queue's pauses and dead letters are those of webhooks."""
    orders = pushgrid.topic("orders")
    inbox = orders.subscribe("inbox", destination=QUEUE, answers=[413, 200])
    orders.publish(PLACED)
    pushgrid.advance(hours=1)
    before = [each.status for each in inbox.attempts]
    pushgrid.arm("POST", f"{inbox.path}/pause")

    replayed(pushgrid, topic="orders", subscription="inbox")
    orders.publish({**PLACED, "id": "e-18"})
    pushgrid.advance(hours=1)
    while_paused = inbox.attempts[1:]
    pushgrid.arm("POST", f"{inbox.path}/resume")
    pushgrid.advance(hours=2)

    assert (before, while_paused) == ([413], [])
    assert sorted(ids(inbox)) == ["e-17", "e-18"]


@pytest.mark.parametrize("is_on", [False, True])
def test_a_header_names_the_job_if_a_setting_says_so(
    pushgrid: Pushgrid, crm: Subscriber, *, is_on: bool
):
    pushgrid._app.push = replace(pushgrid._app.push, has_replay_header=is_on)
    crm.topic.publish({**PLACED, "id": "fresh"})

    job = replayed(pushgrid)

    found = [each.request.headers.get("aeg-replay-of") for each in crm.attempts]
    assert found[:4] == [None] * 4
    assert found[4:] == [job["id"] if is_on else None] * 3


def test_a_second_replay_sends_nothing_unless_it_is_asked_to(pushgrid: Pushgrid, crm: Subscriber):
    replayed(pushgrid)

    second = replayed(pushgrid)
    third = replayed(pushgrid, again=True)

    assert (second["replayed"], second["skipped"]) == (0, {"ReplayedBefore": 3})
    assert third["replayed"] == 3
    assert ids(crm) == ["e-1", "e-2", "e-3"] * 2


@pytest.mark.parametrize("blobs_of_a_step", [step.MAX_BLOBS, 1])
def test_one_event_that_fails_again_is_sent_once_by_the_next_replay(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch, blobs_of_a_step: int
):
    """To each subscription, however many dead letters it has; another event of its id is sent."""
    monkeypatch.setattr(step, "MAX_BLOBS", blobs_of_a_step)
    orders = pushgrid.topic("orders")
    subscribers = [orders.subscribe(each, answers=[400] * 6 + [200]) for each in ("crm", "erp")]
    orders.publish([PLACED, PLACED | {"subject": "/orders/18"}])
    pushgrid.advance(hours=1)

    jobs = []
    for _ in range(3):
        jobs.append(replayed(pushgrid, topic="orders", event="e-17", again=True))
        pushgrid.advance(hours=1)

    assert [each["replayed"] for each in jobs] == [4, 4, 4]
    assert [each["skipped"] for each in jobs] == [
        {},
        {"ReplayedBefore": 4},
        {"ReplayedBefore": 8},
    ]
    for each in subscribers:
        assert sorted(event["subject"] for event in each.received) == ["/orders/17", "/orders/18"]
        assert len(each.attempts) == 8


def test_a_dry_run_sends_and_records_nothing(pushgrid: Pushgrid, crm: Subscriber):
    job = replayed(pushgrid, dryRun=True)

    assert (job["state"], job["replayed"], ids(crm)) == ("Done", 3, [])
    assert replayed(pushgrid)["replayed"] == 3
    assert len(ids(crm)) == 3


def test_some_are_chosen(pushgrid: Pushgrid, crm: Subscriber):
    for members, count in (
        ({"prefix": "CRM/2026/2/9/13"}, 1),
        ({"prefix": "ERP"}, 0),
        ({"since": "2026-02-09T13:00:00Z"}, 1),
        ({"until": "2026-02-09T13:00:00Z"}, 2),
        ({"reason": "undeliverabledueToHttpBadRequest"}, 3),
        ({"reason": "TimeToLiveExceeded"}, 0),
    ):
        assert replayed(pushgrid, dryRun=True, **members)["replayed"] == count, members
    assert ids(crm) == []


def test_another_subscription_gets_them(pushgrid: Pushgrid, crm: Subscriber):
    erp = pushgrid.topic("invoices").subscribe("erp", filter={"subjectBeginsWith": "/none"})

    job = replayed(
        pushgrid, subscription="crm", to={"topic": "invoices", "subscription": "erp"}, rate=1
    )

    assert (job["replayed"], ids(erp), ids(crm)) == (3, ["e-1", "e-2", "e-3"], [])


def test_events_come_paced(pushgrid: Pushgrid, crm: Subscriber):
    pushgrid.arm("POST", "replays", {"rate": 1})
    pushgrid.advance(minutes=5)

    first, *_, last = (each.at for each in crm.attempts[-3:])
    assert (last - first).total_seconds() == 2


def test_large_events_are_put_in_batches_and_kept_as_long_as_they_live(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch
):
    crm = pushgrid.topic("orders").subscribe("crm", answers=[400, 200], destination=IN_TENS)
    crm.topic.publish([{**PLACED, "id": str(each), "data": noise(60_000)} for each in range(3)])
    pushgrid.advance(hours=1)
    failed, began_at, kept, put = len(crm.attempts), pushgrid.now, [], []
    before(monkeypatch, pushgrid._app.payloads, "write", lambda _, until, __: kept.append(until))
    before(monkeypatch, pushgrid._app.queues, "put", lambda _, text, __: put.append(decode(text)))

    replayed(pushgrid, rate=2)

    messages = [each for each in put if not isinstance(each, ReplayStep | OtherVersion)]
    assert [part.batch_size for parts in messages for part in parts] == [10, 10]
    assert [len(each.events) for each in crm.attempts[failed:]] == [2, 1]
    assert kept == [began_at + timedelta(days=4), began_at + timedelta(days=4, seconds=1)]


def test_what_is_dead_lettered_while_a_replay_runs_is_not_part_of_it(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch
):
    crm.answer(400)
    _, second = sorted(pushgrid._app.dead_letters.blobs)
    until = pushgrid.now + timedelta(minutes=20)

    def late(_: object, path: str, __: int) -> None:
        if path == second[1] and pushgrid.now < until:
            raise StorageUnreachable

    before(monkeypatch, pushgrid._app.dead_letters, "read", late)
    job = pushgrid.arm("POST", "replays", {})
    pushgrid.advance(minutes=30)

    job = pushgrid.arm("GET", f"replays/{job['id']}")
    assert (job["state"], job["blobs"], job["events"]) == ("Done", 2, 3)
    assert len(crm.attempts) == 6
    assert len(pushgrid._app.dead_letters.blobs) > 3


def test_a_subscription_that_was_created_again_gets_the_events(pushgrid: Pushgrid, crm: Subscriber):
    crm.delete()
    again = crm.topic.subscribe("crm", deadLetterDestination=crm_destination(pushgrid, crm))

    assert replayed(pushgrid)["replayed"] == 3
    assert ids(again) == ["e-1", "e-2", "e-3"]


def test_equal_names_of_two_topics_share_a_folder_and_nothing_else(
    pushgrid: Pushgrid, crm: Subscriber
):
    shared = crm_destination(pushgrid, crm)
    other = pushgrid.topic("invoices").subscribe(
        "crm", answers=[400, 200], deadLetterDestination=shared
    )
    other.topic.publish({**PLACED, "id": "i-1"})
    pushgrid.advance(hours=1)

    job = replayed(pushgrid, topic="invoices")

    assert (job["skipped"], ids(other), ids(crm)) == ({"AnotherTopic": 3}, ["i-1"], [])


def test_cloud_events_go_only_to_the_topic_that_their_blob_proves(pushgrid: Pushgrid):
    """`is_of` has the cases; a flag sends what is unknown, and not what is another topic's."""
    members: dict[str, Any] = {"eventDeliverySchema": "CloudEventSchemaV1_0"}
    billing, shipping = (
        pushgrid.topic(name, inputSchema="CloudEventSchemaV1_0") for name in ("billing", "shipping")
    )
    first = billing.subscribe("erp", answers=[400, 200], **members)
    shared = crm_destination(pushgrid, first)
    second = shipping.subscribe("erp", answers=[400, 200], deadLetterDestination=shared, **members)
    for topic in (billing, shipping):
        topic.publish({"id": topic.name, "type": "placed"})
        pushgrid.advance(hours=1)

    proven = replayed(pushgrid, topic="billing", unproven=True)
    pushgrid._app.dead_letters.summaries.clear()  # as earlier versions wrote them
    refused = replayed(pushgrid, topic="billing", again=True)

    assert (proven["skipped"], proven["replayed"]) == ({"AnotherTopic": 1}, 1)
    assert (refused["skipped"], refused["replayed"]) == ({"UnprovenTopic": 2}, 0)
    assert (ids(first), ids(second)) == (["billing"], [])
    assert replayed(pushgrid, topic="billing", unproven=True)["replayed"] == 1
    assert sorted(ids(first)) == ["billing", "shipping"]


def test_dead_letters_of_azure_in_any_container_go_to_a_given_subscription(pushgrid: Pushgrid):
    azure = pushgrid.topic("orders", inputSchema="CloudEventSchemaV1_0").subscribe("crm")
    letters = [EVENT | ADDED, CLOUD_EVENT | CLOUD_ADDED, NAMESPACE]
    pushgrid._app.dead_letters.write(
        AZURE,
        "ORDERS-TO-CRM/2025/1/2/3/5b0c.json",
        json.dumps(letters).encode(),
    )
    pushgrid.advance(minutes=1)

    job = replayed(
        pushgrid,
        container="azure",
        account="testing",
        to=CRM,
    )

    assert (job["state"], job["replayed"], ids(azure)) == ("Done", 3, ["a-1", "a-2", "a-2"])


def test_the_own_account_is_the_same_with_and_without_its_name(pushgrid: Pushgrid, crm: Subscriber):
    pushgrid._app.dead_letters.write(AZURE, "1.json", json.dumps([EVENT | ADDED]).encode())
    pushgrid.advance(minutes=1)

    named = replayed(pushgrid, container="azure", account="testing", to=CRM)
    again = replayed(pushgrid, container="azure", to=CRM)

    assert (named["replayed"], again["skipped"], ids(crm)) == (1, {"ReplayedBefore": 1}, ["a-1"])


def test_steps_of_an_unknown_job_and_earlier_steps_do_nothing(pushgrid: Pushgrid, crm: Subscriber):
    job = replayed(pushgrid, rate=1)
    for name in ("unknown", job["id"]):
        pushgrid._app.queues.put(Queue.RETRIES, encode_step(ReplayStep(job=name, number=1)))
    pushgrid.advance(minutes=5)

    assert len(ids(crm)) == 3
    assert pushgrid._app.queues.texts(Queue.RETRIES) == []


def crm_destination(pushgrid: Pushgrid, crm: Subscriber) -> dict[str, Any]:
    """Return the destination of the subscription's dead letters, for another one."""
    destination = pushgrid._app.new_container()
    destination["properties"]["blobContainerName"] = crm.container
    return destination
