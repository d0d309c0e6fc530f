"""
Makes spans of publications and attempts: the extra ``otel``, imported only where it is wanted.

Source: OpenTelemetry specification 1.49, trace SDK; semantic conventions of messaging and HTTP.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

from shared import VERSION
from shared.delivery.delivery import common_trace, traces_of
from shared.delivery.messages.publication import Publication
from shared.delivery.outcome import Outcome
from shared.engine.delivering.in_hand import Attempted, PushRequest, Shortage
from shared.engine.delivering.push import Push
from shared.engine.ports import Commits
from shared.events.trace_context import TraceContext, trace_context, trace_of_event
from shared.http import Answering, HttpAnswer, HttpRequest

MAX_LINKS = 32  # traces of a batch, beyond the first
_SYSTEM = {"messaging.system": "pushgrid"}
_OWN_FAULT = 500


def over_otlp() -> SpanProcessor:
    """Return what sends spans where the variables ``OTEL_EXPORTER_OTLP_…`` say."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter: SpanExporter = OTLPSpanExporter()
    return BatchSpanProcessor(exporter)


class OtelTracing:
    """Begins the spans of this process; *processor* gets those that have ended."""

    def __init__(self, processor: SpanProcessor) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME") or "pushgrid"
        provider = TracerProvider(resource=Resource.create({"service.name": name}))
        provider.add_span_processor(processor)
        self._tracer = provider.get_tracer("pushgrid", VERSION)

    async def publication(self, answer: Answering, request: HttpRequest) -> HttpAnswer:
        """Answer a publish request as a span of the trace in its headers."""
        topic = request.params.get("topic") or request.params.get("namespace", "")
        with self._tracer.start_as_current_span(
            f"publish {topic}",
            context=_context(trace_context(request.headers)),
            kind=SpanKind.SERVER,
            attributes={**_SYSTEM, "messaging.operation.type": "send"},
        ) as span:
            found = await answer(request)
            span.set_attribute("http.response.status_code", found.status)
            if found.status >= _OWN_FAULT:
                span.set_status(StatusCode.ERROR)
            return found

    async def attempt(self, push: Push, request: PushRequest) -> Attempted | Shortage:
        """
        Push a request as a span of its events' trace; the subscriber's spans are its children.

        Events of several traces have none in common: the span begins one, with a link to each.
        """
        trace_here = common_trace(request.batch)
        topic, subscription = request.part.subscription.key
        links = [] if trace_here else _links(traces_of(request.batch))
        span = self._tracer.start_span(
            f"deliver {topic}/{subscription}",
            context=_context(trace_here),
            kind=SpanKind.CLIENT,
            links=links,
            attributes={
                **_SYSTEM,
                "messaging.operation.type": "process",
                "messaging.destination.name": topic,
                "messaging.destination.subscription.name": subscription,
                "messaging.batch.message_count": len(request.batch),
                "pushgrid.attempt": request.batch[0].attempts + 1,
            },
        )
        if push.new_span_id:
            own = f"{span.get_span_context().span_id:016x}"
            push = replace(push, new_span_id=lambda: own)
        try:
            result = await push(request)
            _end(span, result)
        finally:
            span.end()
        return result

    def counting(self, commits: Commits) -> Commits:
        """Return *commits* that tell the span of a publication what is in it."""
        return CountingCommits(commits)


@dataclass(frozen=True, slots=True)
class CountingCommits:
    """Commits that tell the span of a publication what is in it."""

    commits: Commits

    async def commit(self, publication: Publication) -> None:
        span = trace.get_current_span()
        if span.is_recording():
            span.set_attribute("messaging.destination.name", publication.topic)
            span.set_attribute("messaging.batch.message_count", len(publication.texts))
            own = (trace_of_event(text) for text in publication.texts)
            for link in _links(each for each in own if each):
                span.add_link(link.context)
        await self.commits.commit(publication)


def _end(span: Span, result: Attempted | Shortage) -> None:
    if isinstance(result, Shortage):
        span.set_status(StatusCode.ERROR, f"no attempt: {result.of}")
        return
    outcome = result.outcome
    span.set_attribute("pushgrid.outcome", outcome.outcome.value)
    if outcome.status is not None:
        span.set_attribute("http.response.status_code", outcome.status)
    if outcome.outcome is not Outcome.DELIVERED:
        span.set_status(StatusCode.ERROR, outcome.cause)


def _links(traces: Iterable[TraceContext]) -> list[Link]:
    distinct = list(dict.fromkeys(traces))
    return [Link(_span_context(each)) for each in distinct[:MAX_LINKS]]


def _context(parent: TraceContext | None) -> Context:
    """Return a context in which *parent* is the parent; without one, that of no trace."""
    if parent is None:
        return Context()
    return trace.set_span_in_context(trace.NonRecordingSpan(_span_context(parent)), Context())


def _span_context(of: TraceContext) -> SpanContext:
    _, trace_id, span_id, flags = of.parent.split("-")[:4]
    return SpanContext(
        trace_id=int(trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=TraceState.from_header([of.state]) if of.state else TraceState(),
    )
