"""Messages that lay on the queues while the app was updated: written by the version before."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from shared.delivery.message import VERSION, DeliveryMessage, encode
from shared.delivery.message_reader import decode
from shared.engine.ports import Queue
from tests.builders import DEAD, PARKED, URL, text
from tests.fakes import answered
from tests.functional.deployment import Deployment

DATA = Path(__file__).parents[1] / "data/messages"
SAMPLES: dict[str, Any] = {
    f"{file.stem}: {sample['name']}": sample
    for file in sorted(DATA.glob("version-*.json"))
    for sample in json.loads(file.read_text())["messages"]
}
WAITING = {name: each for name, each in SAMPLES.items() if not each["reads"]["deadLetter"]}
SAMPLE = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)


def described(message: DeliveryMessage) -> dict[str, Any]:
    """Say what was read, in the words of the samples."""
    note = message.dead_letter
    return {
        "topic": message.topic,
        "subscription": message.subscription,
        "generation": message.generation,
        "due": _iso(message.due),
        "rounds": message.rounds,
        "deliveries": [
            {
                "publishId": each.origin.publish_id,
                "publishedAt": _iso(each.origin.published_at),
                "payload": each.origin.payload,
                "position": each.position,
                "text": each.text,
                "attempts": each.attempts,
                "last": each.last and [each.last.outcome, each.last.status, _iso(each.last.at)],
            }
            for each in message.deliveries
        ],
        "deadLetter": note
        and {
            "reason": note.reason,
            "keepUntil": _iso(note.keep_until),
            "container": note.destination.container,
            "topicId": note.topic_id,
            "inputSchema": note.input_schema,
            "deliverySchema": note.delivery_schema,
        },
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def read(sample: dict[str, Any]) -> DeliveryMessage:
    message = decode(sample["text"])
    assert isinstance(message, DeliveryMessage)
    return message


def test_there_are_samples_of_the_version_before() -> None:
    versions = {json.loads(sample["text"])["pushgrid"] for sample in SAMPLES.values()}

    assert VERSION - 1 in versions


@SAMPLE
def test_it_is_read_as_it_was_meant(sample: dict[str, Any]) -> None:
    assert described(read(sample)) == sample["reads"]


@SAMPLE
def test_it_means_the_same_when_it_is_written_again(sample: dict[str, Any]) -> None:
    (again,) = encode(read(sample))

    assert json.loads(again)["pushgrid"] == VERSION
    assert decode(again) == read(sample)


def ids(sample: dict[str, Any]) -> list[str]:
    return [
        f"parked-{each['position']}" if each["text"] is None else json.loads(each["text"])["id"]
        for each in sample["reads"]["deliveries"]
    ]


@pytest.fixture
def updated(app: Deployment) -> Deployment:
    """Have the subscription, and the blob that some samples name."""
    app.subscribe(dead_letter=DEAD)
    lines = tuple(text(id=f"parked-{position}") for position in range(5))
    app.payloads.blobs[PARKED.payload or ""] = lines
    return app


@SAMPLE
def test_it_is_delivered_or_becomes_a_blob(updated: Deployment, sample: dict[str, Any]) -> None:
    """Every event exactly once, and nothing is left."""
    is_dead = sample["reads"]["deadLetter"] is not None
    if is_dead:
        updated.queues.put(Queue.DEADLETTERS, sample["text"])
        updated.write_dead_letters.run(updated.in_a_minute())
    else:
        updated.deliver.run(sample["text"].encode())

    pushed = [json.loads(sent.request.body)[0]["id"] for sent in updated.pusher.sent]
    dead = [
        record["id"]
        for (container, _), body in updated.dead_letters.blobs.items()
        for record in json.loads(body)
        if container == DEAD.container
    ]
    assert (pushed, dead) == (([], ids(sample)) if is_dead else (ids(sample), []))
    assert updated.all_stored() == {}


@pytest.mark.parametrize("sample", WAITING.values(), ids=WAITING)
def test_it_fails_and_is_counted_like_any_other(
    updated: Deployment, sample: dict[str, Any]
) -> None:
    """Counters go on from where the version before had left them."""
    updated.pusher.script(URL, answered(500))

    updated.deliver.run(sample["text"].encode())

    stored = Counter(
        (each.position, each.attempts)
        for queue in (Queue.RETRIES, Queue.WAITING)
        for message in updated.on(queue)
        for each in message.deliveries
    )
    expected = sample["reads"]["deliveries"]
    assert stored == Counter((each["position"], each["attempts"] + 1) for each in expected)
