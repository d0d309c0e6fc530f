"""The trace of a publish request reaches the subscriber."""

from __future__ import annotations

from collections.abc import Callable

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Subscriber, answers
from tests.e2e.publishing import ONE_EVENT, post

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
STATE = "vendor=a1,other=b2"


def test_it_goes_on_at_each_attempt(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str
):
    arm.create_topic(name)
    receiver = subscriber(answers(500, 200))
    arm.create_subscription(name, "crm", receiver.url)
    trace = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": STATE}

    assert post(host.url, name, arm.key(name), ONE_EVENT, **trace).ok
    receiver.wait_for(lambda pushes: len(pushes) >= 2)

    parents = [push.headers["traceparent"].split("-") for push in receiver.pushes]
    assert {(version, trace, flags) for version, trace, _, flags in parents} == {
        ("00", TRACE, "01")
    }
    assert len({SPAN, *(span for _, _, span, _ in parents)}) == 3
    assert {push.headers["tracestate"] for push in receiver.pushes} == {STATE}
