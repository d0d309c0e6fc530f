"""Dead letters are sent again from the console."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from azure.storage.queue import QueueClient

from cli.deployment import Deployment
from devhost.azurite import Azurite
from shared.deadletter.paths import dead_letter_path
from shared.engine.ports import Queue
from testbed.arm import Arm
from testbed.subscriber import Subscriber
from tests.browser.conftest import Console, Start
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import an_event, send
from tests.host.running import until

MANY, RATE = 500, 1  # a second: longer than a test may last


@pytest.fixture
def receiver(
    console: Console, arm: Arm, subscriber: Start, letters: DeadLetters, name: str
) -> Subscriber:
    """An endpoint that has refused one event, which is a dead letter, and accepts from then on."""
    arm.create_topic(name)
    statuses = iter([400])
    found = subscriber(lambda _: next(statuses, 200))
    arm.create_subscription(name, "crm", found.url, deadLetterDestination=letters.destination)
    send(console.url, name, arm.key(name), [an_event()])
    letters.wait_for(1)
    console.sign_in(f"/topics/{name}/crm")
    return found


def replay_all(page: Any) -> None:
    """Replay all dead letters; the page asks first."""
    page.get_by_role("button", name="Replay all").click()
    page.get_by_role("button", name="Send them").click()


def test_a_blob_is_replayed_and_what_was_replayed_before_is_left_out(
    console: Console, receiver: Subscriber
) -> None:
    page = console.page
    replays = page.get_by_role("region", name="Replays")

    page.get_by_role("button", name="Replay CRM").click()
    console.says("Replay ")
    assert receiver.wait_for(lambda pushes: len(pushes) == 2)
    replays.locator("tr", has_text="Done").wait_for()
    events = page.get_by_role("region", name="Latest events")
    events.locator("summary", has_text=" replayed ").wait_for()
    assert events.locator("summary", has_text=" published ").count() == 1

    replay_all(page)
    replays.locator("tr", has_text="ReplayedBefore (1)").wait_for()

    page.get_by_label("Also those replayed before").check()
    replay_all(page)
    assert receiver.wait_for(lambda pushes: len(pushes) == 3)
    assert len({push.events[0]["id"] for push in receiver.pushes}) == 1
    replays.locator("tr", has_text="Done").nth(2).wait_for()
    events.locator("summary", has_text="delivered").nth(1).wait_for()  # nothing is left to send


def test_a_large_blob_of_unknown_content_is_read_a_page_at_a_time(
    console: Console, receiver: Subscriber, letters: DeadLetters, name: str
) -> None:
    del receiver
    ((_, (letter,)),) = letters.wait_for(1).items()
    path = dead_letter_path(name, "crm", datetime.now(UTC), "many")
    letters.container.upload_blob(path, json.dumps([letter] * 1200))
    page = console.page
    blob = page.get_by_role("region", name="Dead letters").locator("tr", has_text="many.json")
    blob.locator("td", has_text="unknown").wait_for()

    blob.get_by_role("button", name="Show").click()
    console.shows("1 to 50 of 1000")
    page.get_by_role("button", name="Read more of the blob").click()

    console.says("200 more dead letters.")
    console.shows("1 to 50 of 1200")
    assert page.get_by_role("button", name="Read more of the blob").count() == 0


def test_events_without_proof_are_asked_for_by_a_box(
    console: Console, receiver: Subscriber
) -> None:
    del receiver
    page = console.page
    page.get_by_label("Also CloudEvents that may be of another topic").check()

    with page.expect_request(lambda asked: asked.method == "POST") as asked:
        page.get_by_role("button", name="Count only").click()

    assert asked.value.post_data_json["unproven"] is True
    console.says("Dry run ")


def test_replays_are_read_more_often_while_one_runs(console: Console) -> None:
    console.open()

    seconds = console.page.evaluate(
        """async () => {
          const { replaysPause } = await import("/console/replays.js");
          const [done, running] = ["Done", "Running"].map((state) => ({ state }));
          return [undefined, [], [done], [done, running]].map((jobs) => replaysPause(jobs));
        }"""
    )

    assert seconds == [10, 10, 10, 3]


def test_counting_sends_nothing(console: Console, receiver: Subscriber) -> None:
    page = console.page
    page.get_by_label("Only with the reason").fill("UndeliverableDueToHttpBadRequest")

    page.get_by_role("button", name="Count only").click()
    console.says("Dry run ")

    page.get_by_role("region", name="Replays").locator("tr", has_text="counts only").wait_for()
    console.shows("Done, counts only", "none; would send 1")
    assert len(receiver.pushes) == 1


def test_a_replay_is_cancelled(
    console: Console,
    receiver: Subscriber,
    letters: DeadLetters,
    arm: Arm,
    own_azurite: Azurite,
    name: str,
) -> None:
    ((_, (letter,)),) = letters.wait_for(1).items()
    path = dead_letter_path(name, "crm", datetime.now(UTC), "many")
    many: list[dict[str, Any]] = [letter | {"id": str(number)} for number in range(MANY)]
    letters.container.upload_blob(path, json.dumps(many))
    page = console.page

    page.get_by_label("Events a second").fill(str(RATE))
    replay_all(page)
    page.get_by_role("button", name="Cancel").click()

    console.says("is cancelled; what it has sent is delivered.")
    console.shows("Cancelled")
    with QueueClient.from_connection_string(
        own_azurite.connection_string, Queue.RETRIES
    ) as retries:  # which has the message of the next step
        until(lambda: retries.get_queue_properties().approximate_message_count == 0)
    job = Deployment(url=arm.url, token=lambda: arm.admin_key).get("replays")["value"][0]
    assert job["state"] == "Cancelled"
    assert job["replayed"] < MANY
    assert receiver.wait_for(lambda pushes: len(pushes) == 1 + job["replayed"])
