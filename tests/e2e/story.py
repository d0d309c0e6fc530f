"""The main job as one story: an app is managed, published to, and keeps all its promises."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import requests

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Push, Subscriber, answers, running_subscriber
from tests.e2e.dead_letters import AnyDeadLetters
from tests.e2e.publishing import an_event, ids, send

#: Of a day's waits: 30 s take one.
TIME_SCALE = "60"
_ANSWERS = {"healthy": (200,), "recovering": (503, 503, 200), "refusing": (400,)}
_TOO_LARGE = "x" * 60_000  # for a queue message: it goes to a payload blob


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What came of it; *topic* has no subscription any more but the recovering one."""

    topic: str
    health: Mapping[str, Any]


def play(host: RunningHost, dead_letters: AnyDeadLetters) -> Story:
    """Create, subscribe, publish, deliver, retry, dead-letter, look, delete; or fail."""
    arm, topic = Arm(host.url), f"story-{uuid.uuid4().hex[:8]}"
    arm.create_topic(topic)
    with _subscribers() as subscribers:
        for name, subscriber in subscribers.items():
            destination = dead_letters.destination
            arm.create_subscription(topic, name, subscriber.url, deadLetterDestination=destination)
        events = [an_event(1), an_event(2, text=_TOO_LARGE)]
        send(host.url, topic, arm.key(topic), events)

        published = {event.id for event in events}
        for name, statuses in _ANSWERS.items():
            pushes = subscribers[name].pushes
            assert subscribers[name].wait_for(_at_least(len(statuses) * len(events)), 60), name
            assert ids(pushes) == published, name
            for event in published:
                counts = [_count(push) for push in pushes if ids([push]) == {event}]
                assert counts == list(range(len(statuses))), name
        letters = [each for blob in dead_letters.wait_for(1).values() for each in blob]
        while len(letters) < len(events):  # one blob or two, as the timer finds them
            letters = [each for blob in dead_letters.wait_for(2).values() for each in blob]
        assert {each["id"] for each in letters} == published
        assert {each["deadLetterReason"] for each in letters} == {
            "UndeliverableDueToHttpBadRequest"
        }
        health = requests.get(f"{host.url}/status/health", timeout=60)
        assert health.status_code == requests.codes.ok, health.text
        for name in ("healthy", "refusing"):
            assert arm.subscription(topic, name)["name"] == name
            arm.delete_subscription(topic, name)
            assert len(subscribers[name].notices) == 1, name
    return Story(topic=topic, health=json.loads(health.text))


@contextmanager
def _subscribers() -> Iterator[dict[str, Subscriber]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(running_subscriber(answers(*statuses)))
            for name, statuses in _ANSWERS.items()
        }


def _at_least(number: int) -> Callable[[list[Push]], bool]:
    return lambda pushes: len(pushes) >= number


def _count(push: Push) -> int:
    return int(push.headers["aeg-delivery-count"])
