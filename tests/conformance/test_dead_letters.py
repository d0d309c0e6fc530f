"""Every case of dead-letters/ from publishing to the blob, in simulated time."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import jsonschema
import pytest

from pushgrid.testing.memory import START, answered
from shared.clock import timestamp
from shared.engine.ports import Queue
from shared.events.topic import FieldMapping, InputSchema, TopicName
from shared.http import Exchange, Failure, HttpRequest, NotAnswered
from shared.metrics import Metric
from shared.subscriptions.subscription import (
    DeliveryHeader,
    DeliverySchema,
    DynamicHeader,
    RetryPolicy,
    StaticHeader,
)
from tests.builders import DEAD, KEY, TOPIC_ID, URL, a_topic
from tests.conformance.editions import FOLDER
from tests.functional.deployment import Deployment

DOCUMENT = json.loads((FOLDER / "dead-letters/cases.json").read_text())
CASES = {case["name"]: case for case in DOCUMENT["cases"]}
TIMER = timedelta(minutes=5)
UNANSWERED = NotAnswered(Failure.TIMED_OUT, "", 0)
CONTENT_TYPES = {
    InputSchema.CLOUD_EVENTS: "application/cloudevents+json",
    InputSchema.EVENT_GRID: "application/json",
    InputSchema.CUSTOM: "application/json",
}


def test_the_file_is_as_its_schema_says() -> None:
    schema = json.loads((FOLDER / "dead-letters/cases.schema.json").read_text())

    jsonschema.validate(DOCUMENT, schema)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_dead_letter_conforms(case: dict[str, Any]) -> None:
    app = deployed(case)
    request = publish_request(case)
    if "heldBy" in case:
        other = publish_request(case | {"event": case["event"] | {"id": "another"}})
        assert app.answer(other).status == 200
        deliver_due(app)

    assert app.answer(request).status == 200
    play(app, timedelta(seconds=case.get("locationAwayFor", 0)))

    if case["expect"]["letter"] is None:
        assert app.dead_letters.blobs == {}
        assert sum(app.metrics.of(Metric.DROPPED).values()) == 1
        return
    (((container, path), body),) = app.dead_letters.blobs.items()
    at = app.clock.now()
    hour = f"{at.year}/{at.month}/{at.day}/{at.hour}"
    assert path.rpartition("/")[0] == f"{case['expect']['folder']}/{hour}"
    assert container == DEAD.container
    letters = json.loads(body)
    if "heldBy" in case:  # the other event may have ended as well
        letters = [each for each in letters if each["id"] == case["event"]["id"]]
    assert letters == [filled_in(case["expect"]["letter"])]


def deployed(case: dict[str, Any]) -> Deployment:
    app = Deployment()
    topic, schema = case["topic"], InputSchema(case["inputSchema"])
    namespace = topic.get("namespace")
    name = TopicName(namespace, topic["name"]).joined if namespace else topic["name"]
    mapping = case.get("mapping", {})
    app.directory.topics[name] = a_topic(
        name=name,
        input_schema=schema,
        profile="ns" if namespace else None,
        mapping={
            field: FieldMapping(source or None, None if source else "")
            for field, source in mapping.items()
        },
    )
    policy = case["policy"]
    app.subscribe(
        topic=name,
        name="Crm",
        input_schema=schema,
        delivery_schema=DeliverySchema(case["deliverySchema"]),
        headers=tuple(map(header, case["headers"])),
        dead_letter=DEAD,
        retry_policy=RetryPolicy(
            max_delivery_attempts=policy.get("maxDeliveryAttempts"),
            event_time_to_live_minutes=policy.get("eventTimeToLiveInMinutes"),
        ),
    )
    app.set_terms(probation_ends_events=case.get("probationEndsEvents", False))
    app.pusher.script(URL, *map(exchange, case["answers"]))
    return app


def exchange(answer: str) -> Exchange:
    return UNANSWERED if answer == "timeout" else answered(int(answer))


def header(written: dict[str, Any]) -> DeliveryHeader:
    if "path" in written:
        return DynamicHeader(name=written["name"], path=tuple(written["path"].split(".")))
    is_secret = written.get("secret", False)
    return StaticHeader(name=written["name"], value=written["value"], is_secret=is_secret)


def publish_request(case: dict[str, Any]) -> HttpRequest:
    topic = case["topic"]
    if namespace := topic.get("namespace"):
        params = {"namespace": namespace, "action": f"{topic['name']}:publish"}
        key = {"authorization": f"SharedAccessKey {KEY}"}
    else:
        params, key = {"topic": topic["name"]}, {"aeg-sas-key": KEY}
    content_type = CONTENT_TYPES[InputSchema(case["inputSchema"])]
    return HttpRequest(
        method="POST",
        url="https://pushgrid.example/",
        headers=key | {"content-type": content_type},
        params=params,
        body=json.dumps(case["event"]).encode(),
    )


def deliver_due(app: Deployment) -> None:
    """Deliver what was published."""
    for stored in list(app.queues.stored[Queue.DELIVERIES]):
        app.queues.stored[Queue.DELIVERIES].remove(stored)
        app.work(stored.text)


def play(app: Deployment, away_for: timedelta) -> None:
    """Deliver at once what is due; write the dead letter when it may and can be written."""
    for queue in (Queue.DELIVERIES, Queue.RETRIES, Queue.WAITING) * 20:
        for stored in list(app.queues.stored[queue]):
            app.clock.advance(max(stored.visible_at - app.clock.now(), timedelta()))
            if queue is Queue.WAITING:
                app.wake.run(app.in_a_minute())
                continue
            app.queues.stored[queue].remove(stored)
            app.work(stored.text)
    while waits := app.queues.waits(Queue.DEADLETTERS):
        app.clock.advance(max(*waits, TIMER))
        if app.clock.now() < START + away_for:
            app.dead_letters.fail_next("write")
        app.write_dead_letters.run(app.in_a_minute())


def filled_in(expected: Any) -> Any:
    """Fill in what no case can know: times, and the topic's id."""
    match expected:
        case {"secondsAfterPublish": seconds}:
            return timestamp(START + timedelta(seconds=seconds))
        case {"topicId": True}:
            return TOPIC_ID
        case dict():
            return {name: filled_in(value) for name, value in expected.items()}
        case _:
            return expected
