"""The trace of a publisher that traces with azure-core reaches the subscriber."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Self, cast

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.core.settings import settings
from azure.eventgrid import EventGridPublisherClient

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Subscriber, answers
from tests.e2e.publishing import an_event, endpoint

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
STATE = "vendor=a1,other=b2"


class Span:
    """An implementation of azure-core's tracing: every request is in the trace `TRACE`."""

    def __init__(self, **_: Any) -> None:
        self.span_instance = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End."""

    @staticmethod
    def change_context(_span: Span) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()

    def to_header(self) -> dict[str, str]:
        return {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": STATE}

    def add_attribute(self, *_: object) -> None:
        """Forget it."""

    def set_http_attributes(self, **_: object) -> None:
        """Forget them."""

    def finish(self) -> None:
        """End."""


@pytest.fixture
def tracing() -> Iterator[None]:
    """Trace what the SDK does."""
    settings.tracing_implementation.set_value(cast("Any", Span))
    settings.tracing_enabled.set_value(True)
    yield
    settings.tracing_implementation.unset_value()
    settings.tracing_enabled.unset_value()


@pytest.mark.usefixtures("tracing")
def test_the_trace_of_the_sdk_goes_on_at_each_attempt(
    host: RunningHost,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    name: str,
):
    arm.create_topic(name)
    receiver = subscriber(answers(500, 200))
    arm.create_subscription(name, "crm", receiver.url)

    with EventGridPublisherClient(
        endpoint(host.url, name), AzureKeyCredential(arm.key(name))
    ) as client:
        client.send(an_event())
    receiver.wait_for(lambda pushes: len(pushes) >= 2)

    parents = [push.headers["traceparent"].split("-") for push in receiver.pushes]
    assert {(version, trace, flags) for version, trace, _, flags in parents} == {
        ("00", TRACE, "01")
    }
    assert len({SPAN, *(span for _, _, span, _ in parents)}) == 3
    assert {push.headers["tracestate"] for push in receiver.pushes} == {STATE}
