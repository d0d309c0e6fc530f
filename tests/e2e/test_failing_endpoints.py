"""Retries on schedule, and dead letters in blobs: issue-level promises, at ten times the speed."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from devhost.azurite import Azurite
from devhost.process import RunningHost
from shared.adapters.storage.account import StorageAccount
from shared.adapters.storage.attempts import StorageAttempts
from shared.clock import SystemClock
from testbed.arm import Arm
from testbed.subscriber import Subscriber, answers
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import an_event, send

SCALE = 10


def test_a_busy_endpoint_gets_its_attempts_when_they_are_due(
    host: RunningHost, own_azurite: Azurite, arm: Arm, subscriber: Callable[..., Subscriber]
):
    """503 waits at least 30 s: attempts at 0, 30 and 60 s (contract §3.4), here 3 s apart."""
    event = an_event()
    topic = f"busy-{uuid.uuid4().hex[:8]}"
    arm.create_topic(topic)
    receiver = subscriber(answers(503, 503, 200))
    arm.create_subscription(topic, "busy", receiver.url)

    send(host.url, topic, arm.key(topic), [event])
    receiver.wait_for(lambda pushes: len(pushes) >= 3)
    time.sleep(4)  # A fourth attempt would show.

    assert [push.headers["aeg-delivery-count"] for push in receiver.pushes] == ["0", "1", "2"]
    assert len({push.headers["aeg-output-event-id"] for push in receiver.pushes}) == 1
    account = StorageAccount({"": own_azurite.connection_string})
    (records,) = StorageAttempts(account, SystemClock()).read(
        topic, "busy", datetime.now(UTC) - timedelta(hours=1)
    )
    assert [each.why for each in records] == ["minimum for 503: 30 s", "schedule step 2: 30 s"]
    assert {each.event_id for each in records} == {event.id}
    times = [push.at for push in receiver.pushes]
    for gap in (times[1] - times[0], times[2] - times[1]):
        assert 30 / SCALE <= gap <= 30 / SCALE + 2.5


def test_a_refused_event_becomes_a_dead_letter_after_five_minutes(
    host: RunningHost,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    dead_letters: DeadLetters,
):
    topic = f"refused-{uuid.uuid4().hex[:8]}"
    topic_id = arm.create_topic(topic)["id"]
    receiver = subscriber(answers(400))
    arm.create_subscription(
        topic, "Refusing", receiver.url, deadLetterDestination=dead_letters.destination
    )
    event = an_event(17)

    send(host.url, topic, arm.key(topic), [event])
    receiver.wait_for(lambda pushes: len(pushes) >= 1)
    failed_at = time.time()
    ((name, letters),) = dead_letters.wait_for(1).items()
    waited = time.time() - failed_at

    assert 300 / SCALE - 1 <= waited <= 300 / SCALE + 8
    assert re.fullmatch(r"REFUSING/20\d\d/[1-9]\d?/[1-9]\d?/(0|[1-9]\d?)/[0-9a-f-]{36}\.json", name)
    (dead,) = letters
    assert (
        dead.items()
        >= {
            "id": event.id,
            "topic": topic_id,
            "data": {"number": 17},
            "deadLetterReason": "UndeliverableDueToHttpBadRequest",
            "deliveryAttempts": 1,
            "lastDeliveryOutcome": "BadRequest",
            "lastHttpStatusCode": 400,
        }.items()
    )
    for time_ in ("publishTime", "lastDeliveryAttemptTime"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z", dead[time_])
    assert len(receiver.pushes) == 1
