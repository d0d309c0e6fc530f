"""Retries on schedule, and dead letters in blobs, at twenty times the speed."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain

from devhost.azurite import Azurite
from devhost.process import RunningHost
from shared.adapters.storage.attempts import StorageAttempts
from shared.adapters.storage.clients import StorageClients
from shared.clock import SystemClock
from testbed.arm import Arm
from testbed.subscriber import Subscriber, answers
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import an_event, send
from tests.e2e.waiting import eventually, messages

TIME_SCALE = 20


def test_a_busy_endpoint_gets_its_attempts_when_they_are_due(
    host: RunningHost, own_azurite: Azurite, arm: Arm, subscriber: Callable[..., Subscriber]
):
    """503 waits at least 30 s: attempts at 0, 30 and 60 s (contract §3.4), here 1.5 s apart."""
    event = an_event()
    topic = f"busy-{uuid.uuid4().hex[:8]}"
    arm.create_topic(topic)
    receiver = subscriber(answers(503, 503, 200))
    arm.create_subscription(topic, "busy", receiver.url)

    send(host.url, topic, arm.key(topic), [event])
    receiver.wait_for(lambda pushes: len(pushes) >= 3)
    eventually(partial(messages, own_azurite), 0)  # whence a fourth attempt would come

    assert [push.headers["aeg-delivery-count"] for push in receiver.pushes] == ["0", "1", "2"]
    assert len({push.headers["aeg-output-event-id"] for push in receiver.pushes}) == 1
    log = StorageAttempts(StorageClients({"": own_azurite.connection_string}), SystemClock())
    since = datetime.now(UTC) - timedelta(hours=1)
    why = ["minimum for 503: 30 s", "schedule step 2: 30 s"]
    eventually(
        lambda: [(str(each.event_id), each.why) for each in chain(*log.read(topic, "busy", since))],
        [(event.id, each) for each in why],
    )
    times = [push.at for push in receiver.pushes]
    assert min(times[1] - times[0], times[2] - times[1]) >= 30 / TIME_SCALE


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
    ((name, letters),) = dead_letters.wait_for(1).items()

    assert time.time() - receiver.pushes[0].at >= 300 / TIME_SCALE - 1
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
