"""The cases of dead-letters/ in which a hold ends an event untried, on the running system."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.places import ServedFolder
from testbed.serving import running_server, server_settings
from testbed.subscriber import Subscriber, answers
from tests.conformance.test_dead_letters import CASES
from tests.e2e.dead_letters import AnyDeadLetters, DeadLetters, StoredDeadLetters
from tests.e2e.publishing import ids, post
from tests.host.running import until

pytestmark = pytest.mark.e2e

SCALE = "30"  # the probation of five minutes takes 10 s, the shortest time to live 2 s
HELD = {name: case for name, case in CASES.items() if "heldBy" in case}


Deployed = Callable[[Mapping[str, str]], AbstractContextManager[tuple[RunningHost, AnyDeadLetters]]]


@pytest.fixture(params=["azurite", "sqlite"])
def deployed(request: pytest.FixtureRequest, tmp_path: Path) -> Deployed:
    """Run a deployment with some settings, whose dead letters can be read."""

    @contextmanager
    def on_azurite(
        settings: Mapping[str, str],
    ) -> Iterator[tuple[RunningHost, AnyDeadLetters]]:
        azurite: Azurite = request.getfixturevalue("own_azurite")
        with running_host(host_settings(azurite, **settings)) as host:
            yield host, DeadLetters.into_a_new_container(azurite)

    @contextmanager
    def on_sqlite(settings: Mapping[str, str]) -> Iterator[tuple[RunningHost, AnyDeadLetters]]:
        place = ServedFolder(tmp_path / "data")
        with running_server(place, server_settings(**settings)) as server:
            yield server, StoredDeadLetters(place)

    return on_sqlite if request.param == "sqlite" else on_azurite


@pytest.mark.parametrize("case", HELD.values(), ids=HELD)
def test_what_a_hold_keeps_untried_ends_as_documented(
    deployed: Deployed, subscriber: Callable[..., Subscriber], case: dict[str, Any]
) -> None:
    receiver = subscriber(answers(*map(int, case["answers"])))
    ends_events = str(case.get("probationEndsEvents", False)).lower()
    settings = {"PUSHGRID_TIME_SCALE": SCALE, "PUSHGRID_PROBATION_ENDS_EVENTS": ends_events}
    event, topic = case["event"], case["topic"]["name"]
    with deployed(settings) as (host, letters):
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


def _letters_of(letters: AnyDeadLetters, event_id: str) -> list[dict[str, Any]]:
    found = letters.wait_for(0).values()
    return [each for blob in found for each in blob if each["id"] == event_id]
