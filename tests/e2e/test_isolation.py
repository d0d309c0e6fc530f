"""One hanging endpoint must not keep the others waiting. Design §2, Isolation."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Push, Subscriber
from tests.e2e.publishing import an_event, ids, post, send

EVENTS = 150


def test_a_hanging_endpoint_delays_neither_its_topic_nor_another(
    host: RunningHost,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    report: Callable[[str], None],
):
    """
    150 single events to a healthy and a hanging subscription, more than the host takes at a time.

    A push hangs for 30 s and a message waits for a slot as long: without isolation the healthy
    endpoint gets nothing for minutes.
    """
    topic, other = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("hang", "other"))
    healthy, neighbour = subscriber(), subscriber()

    def hang(_: Push) -> int:
        time.sleep(31)
        return 200

    hanging = subscriber(hang)
    for name in (topic, other):
        arm.create_topic(name)
    arm.create_subscription(topic, "healthy", healthy.url)
    arm.create_subscription(topic, "hanging", hanging.url, retryPolicy={"maxDeliveryAttempts": 1})
    arm.create_subscription(other, "neighbour", neighbour.url)
    key = arm.key(topic)

    sent: dict[str, float] = {}
    for number in range(EVENTS):
        event = an_event(number)
        sent[event.id] = time.time()
        body = [
            {
                "id": event.id,
                "subject": event.subject,
                "eventType": event.event_type,
                "eventTime": "2026-01-01T00:00:00Z",
                "data": event.data,
                "dataVersion": "1",
            }
        ]
        assert post(host.url, topic, key, json.dumps(body).encode()).status_code == 200
        time.sleep(0.02)
    send(host.url, other, arm.key(other), [an_event()])
    assert neighbour.wait_for(lambda pushes: len(pushes) >= 1, 5)
    assert healthy.wait_for(lambda pushes: len(ids(pushes)) >= EVENTS, 20)

    delays = sorted(push.at - sent[push.events[0]["id"]] for push in healthy.pushes)
    report(
        f"beside a hanging endpoint: p50 {delays[len(delays) // 2]:.2f} s, "
        f"longest {delays[-1]:.2f} s for {len(delays)} events"
    )
    assert delays[len(delays) * 99 // 100] < 10
