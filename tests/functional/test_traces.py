"""The trace of an event, from its publish request to each of its deliveries and its end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.delivering.push import Push
from shared.engine.ports import Queue
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import Batching, DeliverySchema, StaticHeader
from tests.builders import DEAD, URL, a_topic, noise
from tests.functional.deployment import Deployment, Logged
from tests.functional.publish_requests import event, publish

HOUR = timedelta(hours=1)
ONE, TWO = "0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736"
STATE = "vendor=a1,other=b2"
CLOUD: dict[str, Any] = {
    "input_schema": InputSchema.CLOUD_EVENTS,
    "delivery_schema": DeliverySchema.CLOUD_EVENTS,
}
Headers = tuple[str | None, str | None]


def parent(trace: str = ONE, span: int | str = "b7ad6b7169203331") -> str:
    return f"00-{trace}-{span:0>16}-01"


def cloud_event(number: int = 0, **attributes: str) -> dict[str, Any]:
    named = {"specversion": "1.0", "id": f"e-{number}", "source": "/shop", "type": "placed"}
    return named | attributes


def deliver(app: Deployment, queue: Queue = Queue.DELIVERIES) -> list[Headers]:
    """Deliver what lies on a queue; return the trace headers of each request."""
    app.pusher.sent.clear()
    texts = app.queues.texts(queue)
    app.queues.stored[queue].clear()
    for text in texts:
        app.work(text)
    sent = [each.request.headers for each in app.pusher.sent]
    return [(each.get("traceparent"), each.get("tracestate")) for each in sent]


@pytest.fixture
def cloud(app: Deployment) -> Deployment:
    app.directory.topics["orders"] = a_topic(input_schema=InputSchema.CLOUD_EVENTS)
    return app


def test_a_delivery_is_a_new_span_of_the_trace_of_its_publish_request(
    app: Deployment, logged: Logged
) -> None:
    app.subscribe()
    app.subscribe(name="billing")

    publish(app, event(0), event(1), traceparent=parent(), tracestate=STATE)

    assert deliver(app) == [(parent(ONE, span), STATE) for span in (1, 2, 3, 4)]
    (line,) = logged("event.published")
    assert line["trace_id"] == ONE


@pytest.mark.parametrize(
    "headers",
    [{}, {"tracestate": STATE}, {"traceparent": parent().upper()}, {"traceparent": "x"}],
    ids=["none", "a state alone", "in capitals", "invalid"],
)
def test_without_a_valid_trace_there_is_nothing_of_it(
    app: Deployment, logged: Logged, headers: dict[str, str]
) -> None:
    app.subscribe()
    publish(app, event())
    (untraced,) = app.queues.texts(Queue.DELIVERIES)
    deliver(app)

    publish(app, event(), **headers)

    (text,) = app.queues.texts(Queue.DELIVERIES)
    assert len(text) == len(untraced)
    assert deliver(app) == [(None, None)]
    assert not any("trace" in name for line in logged("event.published") for name in line)


def test_each_attempt_is_a_span_of_its_own_until_the_dead_letter(
    app: Deployment, logged: Logged
) -> None:
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(500), answered(500), answered(400))
    publish(app, event(), traceparent=parent(), tracestate=STATE)

    first = deliver(app)
    app.clock.advance(HOUR)
    second = deliver(app, Queue.RETRIES)
    app.clock.advance(HOUR)
    third = deliver(app, Queue.RETRIES)
    app.clock.advance(HOUR)
    app.write_dead_letters.run(app.in_a_minute())

    assert first + second + third == [(parent(ONE, span), STATE) for span in (1, 2, 3)]
    assert [line["trace_id"] for line in logged("delivery.attempted")] == [ONE] * 3
    (records,) = app.attempts.read("orders", "crm", START)
    assert [each.trace_id for each in records] == [ONE] * 3
    (line,) = logged("deadletter_batch")
    assert line["trace_ids"] == [ONE]


def test_an_event_in_a_payload_blob_keeps_the_trace(app: Deployment) -> None:
    app.subscribe()

    publish(app, event(data=noise(60_000)), traceparent=parent(), tracestate=STATE)

    assert len(app.payloads.blobs) == 1
    assert deliver(app) == [(parent(ONE, 1), STATE)]


def test_a_dropped_event_names_its_trace(app: Deployment, logged: Logged) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(400))
    publish(app, event(), traceparent=parent())

    deliver(app)

    (line,) = logged("delivery.dropped")
    assert line["trace_id"] == ONE


def test_the_attributes_of_a_cloud_event_come_first_and_stay(cloud: Deployment) -> None:
    """Source: CloudEvents, Distributed Tracing extension: the header is that of the last hop."""
    cloud.subscribe(**CLOUD)
    own = cloud_event(1, traceparent=parent(TWO), tracestate="k=v")
    body = [cloud_event(0), own, cloud_event(2, traceparent="invalid")]
    form = {"content_type": "application/cloudevents-batch+json"}

    publish(cloud, *body, traceparent=parent(ONE), tracestate=STATE, **form)

    assert deliver(cloud) == [
        (parent(ONE, 1), STATE),
        (parent(TWO, 2), "k=v"),
        (parent(ONE, 3), STATE),
    ]
    bodies = [each.request.body.decode() for each in cloud.pusher.sent]
    assert f'"traceparent":"{parent(TWO)}","tracestate":"k=v"' in bodies[1]
    assert "traceparent" not in bodies[0]


@pytest.mark.parametrize(
    ("traces", "sent"),
    [
        ([ONE, ONE], [(parent(ONE, 1), "n=0")]),
        ([ONE, TWO], [(None, None)]),
        ([ONE, None], [(None, None)]),
        ([None, ONE], [(None, None)]),
    ],
    ids=["one trace", "two traces", "the second has none", "the first has none"],
)
def test_a_batch_is_in_a_trace_only_if_all_of_its_events_are(
    cloud: Deployment, logged: Logged, traces: list[str | None], sent: list[Headers]
) -> None:
    cloud.subscribe(batching=Batching(max_events=10), **CLOUD)
    cloud.pusher.script(URL, answered(500))
    events = [
        cloud_event(number, traceparent=parent(each), tracestate=f"n={number}")
        if each
        else cloud_event(number)
        for number, each in enumerate(traces)
    ]

    publish(cloud, *events, content_type="application/cloudevents-batch+json")

    assert deliver(cloud) == sent
    (line,) = logged("delivery.attempted")
    assert line["trace_ids"] == [*dict.fromkeys(filter(None, traces))]


def test_a_custom_header_of_the_same_name_is_kept(app: Deployment) -> None:
    app.subscribe(headers=(StaticHeader(name="TraceParent", value="mine"),))

    publish(app, event(), traceparent=parent(), tracestate=STATE)

    assert deliver(app) == [(None, None)]
    assert app.pusher.sent[0].request.headers["TraceParent"] == "mine"


def test_it_can_be_switched_off(app: Deployment, logged: Logged) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(500))
    app.push = Push(pusher=app.pusher, clock=app.clock)

    publish(app, event(), traceparent=parent(), tracestate=STATE)

    assert deliver(app) == [(None, None)]
    assert [line["trace_id"] for line in logged("delivery.attempted")] == [ONE]
