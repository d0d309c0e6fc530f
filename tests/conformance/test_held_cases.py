"""The cases of dead-letters/ in which a hold ends an event untried, on the running system."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from devhost.azurite import Azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Subscriber, answers
from tests.conformance.test_dead_letters import CASES
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import ids, post
from tests.host.running import until

pytestmark = pytest.mark.e2e

SCALE = "30"  # the probation of five minutes takes 10 s, the shortest time to live 2 s
HELD = {name: case for name, case in CASES.items() if "heldBy" in case}


@pytest.mark.parametrize("case", HELD.values(), ids=HELD)
def test_what_a_hold_keeps_untried_ends_as_documented(
    own_azurite: Azurite, subscriber: Callable[..., Subscriber], case: dict[str, Any]
) -> None:
    receiver = subscriber(answers(*map(int, case["answers"])))
    letters = DeadLetters.into_a_new_container(own_azurite)
    settings = host_settings(
        own_azurite,
        PUSHGRID_TIME_SCALE=SCALE,
        PUSHGRID_PROBATION_ENDS_EVENTS=str(case.get("probationEndsEvents", False)).lower(),
    )
    event, topic = case["event"], case["topic"]["name"]
    with running_host(settings) as host:
        arm = Arm(host.url)
        arm.create_topic(topic)
        arm.create_subscription(
            topic,
            "Crm",
            receiver.url,
            retryPolicy=case["policy"],
            deadLetterDestination=letters.destination,
        )
        key = arm.key(topic)

        post(host.url, topic, key, json.dumps([event | {"id": "another"}]).encode())
        until(arm.holds)
        post(host.url, topic, key, json.dumps([event]).encode())
        (letter,) = until(lambda: _letters_of(letters, event["id"]))
        arm.delete_topic(topic)

    expected = case["expect"]["letter"]
    assert list(letter) == list(expected)
    filled = {"topic": letter["topic"], "publishTime": letter["publishTime"]}
    assert letter == expected | filled
    assert event["id"] not in ids(receiver.pushes)


def _letters_of(letters: DeadLetters, event_id: str) -> list[dict[str, Any]]:
    found = letters.wait_for(0).values()
    return [each for blob in found for each in blob if each["id"] == event_id]
