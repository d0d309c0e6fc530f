"""Who subscribes to a storage account is told of its new blobs of dead letters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from shared.events.notices import WrittenBlob, blob_created
from shared.subscriptions.subscription import DeadLetterDestination
from tests.builders import DEAD, a_delivery, a_message, compact, members
from tests.functional.deployment import MINUTE, Deployment
from tests.functional.timers.dead_letters import (
    ACCOUNT,
    HOUR,
    LONG,
    SOURCE,
    blobs,
    dead,
    notices,
    run,
    subscribe,
)

BLOB = WrittenBlob(
    container="dead",
    path="CRM/2026/2/9/12/8a5f.json",
    url="https://testing.blob.core.windows.net/dead/CRM/2026/2/9/12/8a5f.json",
    etag='"0x8D4BCC2E4835CD0"',
    written_at=START,
    size=524,
    content_type="application/json",
    request_id="831e1650-001e-001b-66ab-eeb76e000000",
    client_request_id="6d79dbfb-0e37-4fc4-981f-442c9ca65760",
)


def test_the_event_has_the_documented_form_to_the_byte() -> None:
    event = blob_created(ACCOUNT, BLOB, lambda: "b68529f3-68cd-4744-baa4-3c0498ec19f0")

    assert event.text == (
        f'{{"topic":"{SOURCE}",'
        '"subject":"/blobServices/default/containers/dead/blobs/CRM/2026/2/9/12/8a5f.json",'
        '"eventType":"Microsoft.Storage.BlobCreated",'
        '"eventTime":"2026-02-09T12:00:00.0000000Z",'
        f'"id":"{event.members["id"]}",'
        '"data":{"api":"PutBlob",'
        '"clientRequestId":"6d79dbfb-0e37-4fc4-981f-442c9ca65760",'
        '"requestId":"831e1650-001e-001b-66ab-eeb76e000000",'
        '"eTag":"0x8D4BCC2E4835CD0",'
        '"contentType":"application/json",'
        '"contentLength":524,'
        '"blobType":"BlockBlob",'
        '"accessTier":"Default",'
        '"url":"https://testing.blob.core.windows.net/dead/CRM/2026/2/9/12/8a5f.json",'
        '"sequencer":"000000000000000000064A62E0DB9000",'
        '"storageDiagnostics":{"batchId":"b68529f3-68cd-4744-baa4-3c0498ec19f0"}},'
        '"dataVersion":"",'
        '"metadataVersion":"1"}'
    )


def test_a_repeat_has_the_same_id_and_new_request_ids() -> None:
    first = blob_created(ACCOUNT, BLOB, lambda: "new-1").members
    known = BLOB._replace(request_id="", client_request_id="")
    again = blob_created(ACCOUNT, known, lambda: "new-2").members

    assert again["id"] == first["id"]
    assert (again["data"]["requestId"], again["data"]["clientRequestId"]) == ("new-2", "new-2")
    other = blob_created(ACCOUNT, BLOB._replace(path="b.json"), lambda: "new-1").members
    assert other["id"] != first["id"]


def test_who_subscribes_is_asked_once_a_run_and_only_if_something_is_written(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def of_topic(topic: str, act: Any = app.directory.of_topic) -> Any:
        asked.append(topic)
        return act(topic)

    monkeypatch.setattr(app.directory, "of_topic", of_topic)
    monkeypatch.setattr(app.directory, "topic", pytest.fail)
    run(app)
    assert asked == []

    subscriptions = [f"crm-{number}" for number in range(3)]
    app.put(
        Queue.DEADLETTERS,
        *(replace(dead(0, note=LONG), subscription=each) for each in subscriptions),
    )
    run(app)

    assert len(blobs(app)) == 3
    assert asked == ["system-testing"]
    assert app.all_stored() == {}


def test_only_the_subscribers_of_its_account_are_told(app: Deployment) -> None:
    subscribe(app)
    other = DeadLetterDestination(container="dead", account="archive1")
    app.put(Queue.DEADLETTERS, dead(0, note=replace(LONG, destination=other)))

    run(app)

    assert (len(blobs(app)), app.all_stored()) == (1, {})


def test_a_failed_publication_keeps_the_dead_letters(app: Deployment) -> None:
    subscribe(app)
    app.put(Queue.DEADLETTERS, dead(0, note=LONG), dead(1, note=LONG))
    app.queues.fail_next("put")

    with pytest.raises(StorageUnavailable):
        run(app)
    assert app.all_stored() == {Queue.DEADLETTERS: 2}
    app.clock.advance(5 * MINUTE)
    run(app)

    assert app.all_stored() == {Queue.DELIVERIES: 1}
    assert notices(app) == blobs(app)


def deliver_all(app: Deployment) -> None:
    while received := app.queues.receive(Queue.DELIVERIES, HOUR):
        for each in received:
            app.work(each.text)
            app.queues.delete(Queue.DELIVERIES, each)


def refusing(app: Deployment, names: list[str]) -> None:
    """Subscribe endpoints that refuse everything, with dead letters in the same account."""
    for name in names:
        url = f"https://{name}.example/"
        subscribe(app, name=name, generation=name, dead_letter=DEAD, endpoint_url=url)
        app.pusher.script(url, answered(400))


def test_a_notice_that_can_not_be_delivered_causes_no_other(app: Deployment) -> None:
    """Its dead letter is written; of a blob with nothing but notices nobody is told."""
    refusing(app, ["a", "b", "c"])
    app.put(Queue.DEADLETTERS, dead(0, note=LONG))

    for _ in range(6):
        run(app)
        deliver_all(app)
        app.clock.advance(10 * MINUTE)

    assert len(app.pusher.sent) == 3
    assert len(blobs(app)) == 4
    assert app.all_stored() == {}


def test_a_blob_with_any_other_dead_letter_is_told_of(app: Deployment) -> None:
    """A blob event of somebody else fails as well: the loop ends when those end."""
    refusing(app, ["ops"])
    app.put(Queue.DEADLETTERS, dead(0, note=LONG))
    run(app)
    deliver_all(app)
    note = replace(LONG, topic_id=SOURCE)
    upload = a_delivery(text=compact({**members(), "subject": "/blobServices/x", "id": "1"}))
    place = {"topic": ACCOUNT.name, "subscription": "ops", "generation": "ops"}
    app.put(Queue.DEADLETTERS, a_message([upload], dead_letter=note, **place))

    for _ in range(6):
        run(app)
        deliver_all(app)
        app.clock.advance(10 * MINUTE)

    assert len(app.pusher.sent) == 2
    assert len(blobs(app)) == 3
    assert app.all_stored() == {}
