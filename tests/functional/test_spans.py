"""OtelTracing of publications and attempts, as OpenTelemetry's SDK has them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from pushgrid.testing.memory import answered
from shared.adapters.otel import CountingCommits, OtelTracing
from shared.engine.ports import Queue
from shared.events.topic import InputSchema
from shared.http import Failure, HttpAnswer, NotAnswered
from shared.subscriptions.subscription import Batching, DeliverySchema
from tests.builders import URL, a_delivery, a_message, a_topic
from tests.functional.deployment import Deployment
from tests.functional.publish_requests import event, publish_request

TRACE, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
ROOT = Path(__file__).parents[2]


class Traced:
    """A deployment whose publications and attempts are spans."""

    def __init__(self, app: Deployment) -> None:
        self.app = app
        self._exporter = InMemorySpanExporter()
        self.tracing = OtelTracing(SimpleSpanProcessor(self._exporter))
        app.push = partial(self.tracing.attempt, app.push)  # type: ignore[assignment]
        app.publish = replace(
            app.publish,
            commits=CountingCommits(app.publish.commits),
            within_span=self.tracing.publication,
        )

    def publish(self, *events: dict[str, Any], **headers: Any) -> HttpAnswer:
        request = publish_request(*events, **headers)
        return self.app.loop.run(self.app.publish.run(request))

    @property
    def ended(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def traced(app: Deployment) -> Traced:
    return Traced(app)


def test_a_publication_is_a_span_of_the_trace_in_its_headers(traced: Traced) -> None:
    traced.app.subscribe()

    traced.publish(event(1), event(2), traceparent=PARENT, tracestate="a=b")

    (span,) = traced.ended
    assert (span.name, span.kind) == ("publish orders", SpanKind.SERVER)
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert span.context.trace_state.to_header() == "a=b"
    attributes = span.attributes or {}
    assert attributes["messaging.batch.message_count"] == 2
    assert attributes["http.response.status_code"] == 200


def test_a_refused_publication_is_a_span_as_well(traced: Traced) -> None:
    refused = traced.publish(event(1), aeg_sas_key="wrong")
    (span,) = traced.ended
    assert (span.attributes or {})["http.response.status_code"] == refused.status == 401
    assert span.status.status_code is StatusCode.UNSET

    traced.app.subscribe()
    traced.app.queues.fail_next("put")
    assert traced.publish(event(1)).status == 503
    assert traced.ended[-1].status.status_code is StatusCode.ERROR


def test_an_attempt_is_the_parent_of_the_subscribers_spans(traced: Traced) -> None:
    traced.app.subscribe()
    traced.publish(event(1), traceparent=PARENT)
    (text,) = traced.app.queues.texts(Queue.DELIVERIES)

    traced.app.work(text)

    span = traced.ended[-1]
    assert (span.name, span.kind) == ("deliver orders/crm", SpanKind.CLIENT)
    assert f"{span.context.trace_id:032x}" == TRACE
    sent = traced.app.pusher.sent[-1].request.headers["traceparent"]
    assert sent == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert span.status.status_code is StatusCode.UNSET
    assert dict(span.attributes or {}) == {
        "messaging.system": "pushgrid",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.subscription.name": "crm",
        "messaging.batch.message_count": 1,
        "pushgrid.attempt": 1,
        "pushgrid.outcome": "Delivered",
        "http.response.status_code": 200,
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answered(503), "503 Busy"),
        (NotAnswered(Failure.TIMED_OUT, "late", 30.0), "late"),
        (NotAnswered(Failure.SHORTAGE, "descriptors", 0.0), "no attempt: descriptors"),
    ],
)
def test_an_attempt_that_failed_says_why(traced: Traced, answer: Any, words: str) -> None:
    traced.app.subscribe()
    traced.app.pusher.script(URL, answer)

    traced.app.run(a_message([a_delivery()]))

    span = traced.ended[0]
    assert span.parent is None
    assert span.status.status_code is StatusCode.ERROR
    assert words in (span.status.description or "")


def test_a_batch_of_several_traces_links_each_and_so_does_its_publication(traced: Traced) -> None:
    traced.app.directory.topics["orders"] = a_topic(input_schema=InputSchema.CLOUD_EVENTS)
    traced.app.subscribe(
        batching=Batching(max_events=10),
        input_schema=InputSchema.CLOUD_EVENTS,
        delivery_schema=DeliverySchema.CLOUD_EVENTS,
    )
    attributes = {"specversion": "1.0", "source": "/shop", "type": "placed"}
    events = [
        {**attributes, "id": f"e-{number}", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
        for number, trace in enumerate([TRACE, OTHER, TRACE])
    ]
    traced.publish(*events, content_type="application/cloudevents-batch+json")
    (text,) = traced.app.queues.texts(Queue.DELIVERIES)
    traced.app.work(text)

    published, attempt = traced.ended
    for span in (published, attempt):
        assert span.parent is None
        assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE, OTHER]
    assert "traceparent" not in traced.app.pusher.sent[-1].request.headers


_IMPORTED = """
import sys
from shared.wiring.function_app import APP
APP.app.publish, APP.delivering
print([name for name in sys.modules if "opentelemetry" in name or name == "shared.adapters.otel"])
print(APP.app.publish.within_span)
"""


def test_without_an_endpoint_for_them_nothing_is_imported_and_nothing_in_the_way() -> None:
    environ = {"AzureWebJobsStorage": "UseDevelopmentStorage=true", "PATH": "/usr/bin"}
    run = subprocess.run(
        [sys.executable, "-c", _IMPORTED],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout.splitlines() == ["[]", "None"]


def test_an_endpoint_without_the_extra_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, logged: Any
) -> None:
    from shared.wiring.outbound import find_tracing

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    assert find_tracing() is None

    (line,) = logged("otel.missing")
    assert "install pushgrid[otel]" in line["detail"]
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert find_tracing() is None
    assert len(logged("otel.missing")) == 1
