"""The console as an operator uses it: in a browser, on the host, Azurite and real endpoints."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.storage.queue import QueueClient

from devhost.azurite import ACCOUNT, Azurite
from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.tables import StorageResources
from shared.arm.subscription_codec import to_subscription_in_force
from shared.delivery.health.endpoint_health import Health, Hold, endpoint_id
from shared.engine.ports import Table
from testbed.arm import Arm, queue_destination
from testbed.subscriber import answers
from tests.browser.conftest import HERE, ROOT, Console, Start
from tests.builders import a_table_health
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import an_event, send

CONSOLE = ROOT / "shared" / "console"


def test_the_story_of_the_demo(
    console: Console, arm: Arm, subscriber: Start, letters: DeadLetters
) -> None:
    name = "orders"
    arm.create_topic(name)
    stories = {"healthy": [200], "recovering": [503, 503, 200], "refusing": [400]}
    for each, statuses in stories.items():
        url = subscriber(answers(*statuses)).url
        arm.create_subscription(name, each, url, deadLetterDestination=letters.destination)
    console.sign_in(f"/topics/{name}")
    page = console.page

    page.get_by_label("Type").fill("Shop.OrderPlaced")
    page.get_by_role("button", name="Publish").click()
    console.says("Published event")

    page.get_by_role("link", name="recovering").click()
    console.shows("Attempt 1", "503 Busy", "Next at", "minimum for 503")
    console.shows("Attempt 3", "200 Delivered", "Delivered: 1 in the last hour")
    page.get_by_role("button", name="Forecast").click()
    console.shows("minimum for 503: 30 s", "delivered after", "All waits are 300 times shorter")

    page.get_by_role("link", name=name).click()
    page.get_by_role("link", name="refusing").click()
    console.shows("400 BadRequest", "given up", "Its dead-letter blob ")
    assert "503 Busy" not in page.locator("main").inner_text()  # of the view before
    page.get_by_role("button", name="Show REFUSING").click()
    console.says("Showing 1 dead letter.")
    console.shows("UndeliverableDueToHttpBadRequest", "Shop.OrderPlaced")

    page.get_by_role("link", name="Pushgrid").click()
    console.shows("Published: ", "Latest failures", f"{name}/refusing", f"{name}/recovering")
    page.locator("summary").filter(has_text="refusing").click()


def test_a_queue_is_shown_by_its_name_and_account(
    console: Console, arm: Arm, own_azurite: Azurite, name: str
) -> None:
    queue = QueueClient.from_connection_string(own_azurite.connection_string, name)
    queue.create_queue()
    arm.create_topic(name)
    arm.create_subscription(name, "worker", destination=queue_destination(ACCOUNT, name))
    console.sign_in(f"/topics/{name}")
    page = console.page

    page.get_by_label("Search names and endpoints").fill(f"queue {name} of {ACCOUNT}")
    console.shows("1 of 1 subscriptions", f"queue {name} of {ACCOUNT}", "delivering")
    page.get_by_role("link", name="worker").click()
    page.get_by_role("button", name="Send a test event").click()
    console.says("The endpoint accepted the test event.")
    console.shows(f"queue {name} of {ACCOUNT}", "200 Delivered")
    assert len(list(queue.receive_messages())) == 1


def test_a_wrong_key_is_told_and_shows_nothing(console: Console, arm: Arm, name: str) -> None:
    arm.create_topic(name)
    console.sign_in(key="wrong")

    page = console.page
    assert "not a valid key" in page.get_by_role("alert").filter(has_text="key").inner_text()
    assert name not in page.content()
    assert page.get_by_label("Admin key").input_value() == "wrong"


def test_a_pause_holds_events_until_it_is_resumed(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    arm.create_topic(name)
    receiver = subscriber()
    arm.create_subscription(name, "crm", receiver.url)
    console.sign_in(f"/topics/{name}/crm")
    page = console.page

    page.get_by_role("button", name="Pause").click()
    console.says("Paused: its events are stored and wait.")
    console.shows("paused", "by the admin key")
    page.get_by_role("link", name=name).click()
    page.get_by_role("button", name="Publish").click()
    console.says("Published event")
    page.get_by_role("link", name="crm").click()
    page.get_by_role("button", name="Resume").click()
    console.says("Resumed")
    console.shows("delivering")

    assert receiver.wait_for(lambda pushes: len(pushes) == 1)
    assert receiver.pushes[0].events[0]["eventType"] == "Console.Test"


def test_a_hold_is_told_and_released(
    console: Console, arm: Arm, subscriber: Start, own_azurite: Azurite, name: str
) -> None:
    arm.create_topic(name)
    arm.create_subscription(name, "crm", subscriber().url)
    resources = StorageResources(StorageClients({"": own_azurite.connection_string}))
    stored = resources.get(Table.EVENT_SUBSCRIPTIONS, name, "crm")
    assert stored
    used = to_subscription_in_force(stored.document)
    now = datetime.now(UTC)
    why, until = "delayed delivery: 1 h", now + timedelta(hours=1)
    hold = Hold(extended_at=now, until=until, why=why, sent_at=now, delays=9)
    health = Health(endpoint=endpoint_id(used), hold=hold)
    a_table_health(resources).write(used.key, health, None)
    console.sign_in(f"/topics/{name}/crm")
    page = console.page

    console.shows("held until", why)
    shown = page.locator(".why time").first
    assert shown.get_attribute("title") == hold.until.isoformat(timespec="milliseconds").replace(
        "+00:00", "Z"
    )
    page.get_by_role("button", name="Release").click()
    console.says("Released")
    console.shows("delivering")
    assert page.get_by_role("button", name="Release").is_disabled()


def test_a_test_shows_what_was_sent_and_answered(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    arm.create_topic(name)
    receiver = subscriber(answers(418))
    arm.create_subscription(name, "crm", f"{receiver.url}?code=s3cret-code")
    console.sign_in(f"/topics/{name}/crm")

    twice = "(button) => { button.click(); button.click(); }"
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(request.url.split("?")[0]))
    console.page.get_by_role("button", name="Send a test event").evaluate(twice)
    console.says("did not accept the test event")
    assert len([each for each in asked if each.endswith("/test")]) == 1

    test = console.page.get_by_role("group", name="Test")
    assert "418" in test.inner_text()
    assert f"POST {receiver.url}" in test.inner_text()
    assert "s3cret-code" not in console.page.content()
    assert len(receiver.pushes) == 1


@pytest.mark.parametrize("schema", ["CloudEventSchemaV1_0", "CustomEventSchema"])
def test_events_of_each_schema_are_published(
    console: Console, arm: Arm, subscriber: Start, name: str, schema: str
) -> None:
    mapping: dict[str, Any] = {}
    if schema == "CustomEventSchema":
        fields = {"eventType": {"defaultValue": "Placed"}, "subject": {"defaultValue": "/"}}
        fields |= {"dataVersion": {"defaultValue": "1"}}
        mapping = {"inputSchemaMapping": {"inputSchemaMappingType": "Json", "properties": fields}}
    arm.create_topic(name, inputSchema=schema, **mapping)
    receiver = subscriber()
    arm.create_subscription(name, "crm", receiver.url)
    console.sign_in(f"/topics/{name}")

    if schema == "CustomEventSchema":
        console.page.get_by_label("Event (JSON").fill('{"order": 17, "id": 1e3}')
    console.page.get_by_role("button", name="Publish").click()
    console.says("Published event 1e3;" if schema == "CustomEventSchema" else "Published event ")

    assert receiver.wait_for(lambda pushes: len(pushes) == 1)
    (event,) = receiver.pushes[0].events
    assert event.get("order") == 17 or event["type"] == "Console.Test"


def test_what_can_not_be_read_is_said_and_what_was_read_stays(
    console: Console, arm: Arm, name: str
) -> None:
    arm.create_topic(name)
    console.sign_in()
    page = console.page
    page.get_by_role("link", name=name).first.wait_for()

    fault = {"error": {"code": "ServiceUnavailable", "message": "Storage is away."}}
    page.route("**/status/*", lambda route: route.fulfill(status=503, body=json.dumps(fault)))

    console.shows("This can't be read: Storage is away.", "Stale since")
    assert page.get_by_role("link", name=name).first.is_visible()
    page.unroute("**/status/*")
    page.get_by_text("This can't be read").first.wait_for(state="detached")


def test_nothing_old_stays_green_without_the_deployment(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    arm.create_topic(name)
    arm.create_subscription(name, "crm", subscriber().url)
    console.sign_in()
    page = console.page
    console.shows("delivering")
    (green,) = set(colours(page, ".badge.good"))

    page.route("**/*", lambda route: route.abort())
    page.get_by_role("alert").filter(has_text="has not answered since").wait_for()
    console.shows("was ")
    page.wait_for_function("() => !document.querySelector('section:not(.stale) .badge.good')")

    assert green not in colours(page, ".badge")
    page.unroute("**/*")
    page.get_by_text("has not answered since").wait_for(state="detached")
    page.locator("section.stale").first.wait_for(state="detached")
    assert green in colours(page, ".badge.good")


def colours(page: Any, selector: str) -> list[str]:
    """Return the grounds of what *selector* finds."""
    grounds = "(found) => found.map((each) => getComputedStyle(each).backgroundColor)"
    return list(page.locator(selector).evaluate_all(grounds))


def test_a_failure_is_told_beside_newer_events_that_were_delivered(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    arm.create_topic(name)
    receiver = subscriber(lambda push: 400 if "bad" in push.events[0]["data"] else 200)
    arm.create_subscription(name, "crm", receiver.url)
    send(console.url, name, arm.key(name), [an_event(bad=True)])
    assert receiver.wait_for(lambda pushes: len(pushes) == 1)
    send(console.url, name, arm.key(name), [an_event() for _ in range(10)])
    assert receiver.wait_for(lambda pushes: len(pushes) == 11)
    console.sign_in()

    failures = console.page.get_by_role("region", name="Latest failures")
    failure = failures.locator("details", has_text=f"{name}/crm")
    failure.locator("summary").click()
    failure.get_by_text("400 BadRequest").wait_for()
    assert failure.locator("strong", has_text="dropped").count() == 1


def test_a_key_that_is_no_longer_valid_signs_out(console: Console, arm: Arm, name: str) -> None:
    arm.create_topic(name)
    console.sign_in()
    page = console.page
    page.get_by_role("link", name=name).first.wait_for()

    fault = {"error": {"code": "AuthenticationFailed", "message": "The key was changed."}}
    page.route("**/status/topics", lambda route: route.fulfill(status=401, body=json.dumps(fault)))

    page.get_by_role("alert").filter(has_text="The key was changed.").wait_for()
    assert name not in page.content()


def test_the_copy_of_the_library_is_what_the_package_holds() -> None:
    package = HERE / "node_modules" / "preact"

    assert (CONSOLE / "preact.mjs").read_bytes() == (package / "dist/preact.mjs").read_bytes()
    assert (CONSOLE / "preact-license.txt").read_bytes() == (package / "LICENSE").read_bytes()


@pytest.mark.parametrize("path", ["/topics/nope", "/topics/nope/crm"])
def test_an_unknown_topic_is_told_once(console: Console, path: str) -> None:
    console.sign_in(path)

    console.shows("There is no topic nope.")
    console.page.get_by_role("link", name="Show all topics").click()
    console.page.get_by_role("heading", name="Overview").wait_for()


def test_a_namespace_topic_is_like_any_other(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    receiver = subscriber()
    arm.create_namespace(name)
    arm.create_namespace_topic(name, "orders")
    arm.create_namespace_subscription((name, "orders"), "crm", receiver.url)
    console.sign_in(f"/topics/{name}.orders")
    page = console.page

    page.get_by_role("button", name="Publish").click()
    console.says("Published event")
    assert receiver.wait_for(lambda pushes: len(pushes) == 1)
    console.shows("Published: 1 in the last hour", "Delivered: 1 in the last hour")
    page.get_by_role("link", name="crm").click()
    console.shows("200 Delivered", "Given up: none in the last hour")


def test_a_storage_account_is_a_topic_to_which_nobody_publishes(
    console: Console, arm: Arm, subscriber: Start, letters: DeadLetters, name: str
) -> None:
    """Whoever subscribes to it is told of the blob that a dead letter becomes."""
    ops = subscriber()
    arm.create_account_subscription(ACCOUNT, name, ops.url)
    arm.create_topic(name)
    where = letters.destination
    arm.create_subscription(name, "crm", subscriber(answers(400)).url, deadLetterDestination=where)
    send(console.url, name, arm.key(name), [an_event()])
    assert ops.wait_for(bool)
    console.sign_in()
    page = console.page

    page.get_by_role("link", name=f"system-{ACCOUNT}", exact=True).first.click()

    page.get_by_role("heading", name=f"system-{ACCOUNT}").wait_for()
    console.shows("Delivered: ")
    assert page.get_by_role("button", name="Publish").count() == 0
    page.get_by_role("link", name=name).click()
    console.shows("Delivered: 1 in the last hour", "Given up: none in the last hour")
    page.get_by_role("button", name="Pause").click()
    console.says("Paused")


def test_numbers_of_events_stay_as_they_are_written(
    console: Console, arm: Arm, subscriber: Start, letters: DeadLetters, name: str
) -> None:
    arm.create_topic(name)
    receiver = subscriber(answers(400))
    destination = letters.destination
    arm.create_subscription(name, "crm", receiver.url, deadLetterDestination=destination)
    console.sign_in(f"/topics/{name}")
    page = console.page
    numbers = ["12345678901234567890", "1.10", "1e3"]

    page.get_by_label("Data (JSON)").fill(f"[{', '.join(numbers)}]")
    page.get_by_role("button", name="Publish").click()
    assert receiver.wait_for(lambda pushes: len(pushes) == 1)
    page.get_by_role("link", name="crm").click()
    page.get_by_role("button", name="Show CRM").click()
    console.says("Showing 1 dead letter.")

    assert "".join(numbers) in re.sub(r"[\s,]", "", receiver.pushes[0].body.decode())
    event = page.get_by_label("Event 1")
    assert re.findall(r"^ +([\de.]+),?$", event.inner_text(), re.MULTILINE) == numbers
    page.evaluate("() => { delete JSON.rawJSON }")  # as in a browser that is older
    page.get_by_role("button", name="Show CRM").click()
    event.filter(has_text="1.1,").wait_for()
    console.shows("This browser shows numbers as JavaScript rounds them.")
