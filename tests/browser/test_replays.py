"""Dead letters are sent again from the console."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from devhost.azurite import Azurite
from shared.deadletter.batching import dead_letter_path
from testbed.arm import Arm
from testbed.subscriber import Subscriber, answers
from tests.browser.conftest import Console
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import an_event, send

Start = Callable[..., Subscriber]
SLOWER_THAN_ANY_TEST = 1  # event a second, of 500


@pytest.fixture
def letters(own_azurite: Azurite) -> DeadLetters:
    return DeadLetters.into_a_new_container(own_azurite)


@pytest.fixture
def receiver(
    console: Console, arm: Arm, subscriber: Start, letters: DeadLetters, name: str
) -> Subscriber:
    """An endpoint that has refused one event, which is a dead letter, and accepts from then on."""
    arm.create_topic(name)
    found = subscriber(answers(400, 200))
    arm.create_subscription(name, "crm", found.url, deadLetterDestination=letters.destination)
    send(console.url, name, arm.key(name), [an_event()])
    letters.wait_for(1)
    console.sign_in(f"/topics/{name}/crm")
    return found


def test_a_blob_is_replayed_and_what_was_replayed_before_is_left_out(
    console: Console, receiver: Subscriber
) -> None:
    page = console.page
    replays = page.get_by_role("region", name="Replays")

    page.get_by_role("button", name="Replay CRM").click()
    console.says("Replay ")
    assert receiver.wait_for(lambda pushes: len(pushes) == 2)
    replays.locator("tr", has_text="Done").wait_for()

    page.get_by_role("button", name="Replay all").click()
    replays.locator("tr", has_text="ReplayedBefore (1)").wait_for()

    page.get_by_label("Also those replayed before").check()
    page.get_by_role("button", name="Replay all").click()
    assert receiver.wait_for(lambda pushes: len(pushes) == 3)
    assert len({push.events[0]["id"] for push in receiver.pushes}) == 1


def test_counting_sends_nothing(console: Console, receiver: Subscriber) -> None:
    page = console.page
    page.get_by_label("Only with the reason").fill("UndeliverableDueToHttpBadRequest")

    page.get_by_role("button", name="Count only").click()
    console.says("Dry run ")

    page.get_by_role("region", name="Replays").locator("tr", has_text="counts only").wait_for()
    console.shows("Done, counts only")
    assert len(receiver.pushes) == 1


def test_a_replay_is_cancelled(
    console: Console, receiver: Subscriber, letters: DeadLetters, name: str
) -> None:
    ((_, (letter,)),) = letters.wait_for(1).items()
    path = dead_letter_path(name, "crm", datetime.now(UTC), "many")
    many: list[dict[str, Any]] = [letter | {"id": str(number)} for number in range(500)]
    letters.container.upload_blob(path, json.dumps(many))
    page = console.page

    page.get_by_label("Events a second").fill(str(SLOWER_THAN_ANY_TEST))
    page.get_by_role("button", name="Replay all").click()
    page.get_by_role("button", name="Cancel").click()

    console.says("is cancelled; what it has sent is delivered.")
    console.shows("Cancelled")
    assert len(receiver.pushes) < 500
