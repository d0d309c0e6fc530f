"""Why an event did not match: a subscription's page shows its configuration, and tries an event."""

from __future__ import annotations

import json
import shlex
from typing import Any

from testbed.arm import Arm
from testbed.subscriber import answers
from tests.browser.conftest import Console, Start
from tests.commands import Run
from tests.e2e.dead_letters import DeadLetters

FILTERS: list[dict[str, Any]] = [
    {"operatorType": "NumberLessThan", "key": "data.total", "value": 1000},
    {"operatorType": "NumberNotInRange", "key": "data.size", "values": [[1, 5], [10, 20.5]]},
    {"operatorType": "StringNotIn", "key": "data.color", "values": ['it\'s "red"', "10"]},
    {"operatorType": "StringBeginsWith", "key": "subject", "values": ["/orders/eu/"]},
    {"operatorType": "BoolEquals", "key": "data.paid", "value": False},
    {"operatorType": "IsNullOrUndefined", "key": "data.note"},
]
HEADERS = [
    {"name": "X-Plain", "type": "Static", "properties": {"value": "a b", "isSecret": False}},
    {"name": "X-Secret", "type": "Static", "properties": {"value": "s3cret", "isSecret": True}},
    {"name": "X-Tenant", "type": "Dynamic", "properties": {"sourceField": "data.tenant"}},
    {
        "name": "webhook-max-rate",
        "type": "Static",
        "properties": {"value": "20", "isSecret": False},
    },
]


def test_the_configuration_is_shown_with_the_command_that_changes_it(
    console: Console, arm: Arm, subscriber: Start, letters: DeadLetters, name: str, pushgrid: Run
) -> None:
    arm.create_topic(name)
    arm.create_subscription(
        name,
        "crm",
        subscriber().url,
        {"maxEventsPerBatch": 10, "deliveryAttributeMappings": HEADERS},
        filter={
            "includedEventTypes": ["Shop.Placed", "Shop.Paid"],
            "subjectEndsWith": "/17",
            "isSubjectCaseSensitive": True,
            "advancedFilters": FILTERS,
        },
        retryPolicy={"maxDeliveryAttempts": 7, "eventTimeToLiveInMinutes": 90},
        labels=["a", "b c"],
        expirationTimeUtc="2099-01-31T00:00:00Z",
        deadLetterDestination=letters.destination,
    )
    before = arm.subscription(name, "crm")["properties"]
    console.sign_in(f"/topics/{name}/crm")

    console.shows("Shop.Placed, Shop.Paid", "data.total < 1000", "7 at most, within 90 min")
    console.shows(
        "up to 10 events in a request", "X-Secret: (secret)", "X-Tenant: from data.tenant"
    )
    console.shows(
        "20 at most, of all processes together",
        "--max-rate 20",
        "at most 20 a second; no process has sent to it yet",
    )
    assert "s3cret" not in console.page.content()
    command = console.page.get_by_label("Command").inner_text()
    words = shlex.split(command.replace("\\\n", ""))
    assert words[:3] == ["pushgrid", "subscription", "update"]
    assert pushgrid(*words[1:]).code == 0
    assert arm.subscription(name, "crm")["properties"] == before


def test_the_condition_that_says_no_is_told_for_an_event(
    console: Console, arm: Arm, subscriber: Start, letters: DeadLetters, name: str
) -> None:
    arm.create_topic(name)
    arm.create_subscription(
        name,
        "crm",
        subscriber(answers(400)).url,
        filter={
            "includedEventTypes": ["Shop.Placed", "Shop.Paid "],
            "subjectBeginsWith": "/orders/",
            "advancedFilters": FILTERS[:1],
        },
        deadLetterDestination=letters.destination,
    )
    console.sign_in(f"/topics/{name}/crm")
    page = console.page
    field = page.get_by_label("Event (JSON")
    ask = page.get_by_role("button", name="Does it match?")

    ask.click()
    console.says("It matches.")
    event = json.loads(field.input_value())
    for member, why in {
        "eventType": "event types: 'shop.paid ', 'shop.placed'; the event has 'shop.no'",
        "subject": "subject begins with '/orders/'; the event has 'shop.no'",
    }.items():
        field.fill(json.dumps({**event, member: "Shop.No"}))
        ask.click()
        console.says(why)
    field.fill(json.dumps({**event, "data": {}}))
    ask.click()
    console.shows("data.total NumberLessThan 1000; the event has no data.total")
    console.shows("Warning: includedEventTypes has 'Shop.Paid '", "write 'Shop.Paid'.")
    field.fill(json.dumps({**event, "data": {"Total": 5}}))
    ask.click()
    console.says("It matches.")
    field.fill("{")
    ask.click()
    console.says("is not valid JSON")

    page.get_by_role("link", name=name).click()
    page.get_by_role("button", name="Publish").click()
    console.says("1 event subscription matched.")
    page.get_by_label("Subject").fill("/elsewhere")
    page.get_by_role("button", name="Publish").click()
    console.says("no event subscription matched. crm: subject begins with '/orders/'")

    letters.wait_for(1)
    page.get_by_role("link", name="crm").click()
    page.get_by_role("button", name="Show CRM").click()
    page.get_by_role("button", name="Check").click()
    ask.click()
    console.says("It matches.")
    assert json.loads(field.input_value())["subject"] == "/orders/"


def test_one_event_is_sent_again(
    console: Console, arm: Arm, subscriber: Start, letters: DeadLetters, name: str
) -> None:
    arm.create_topic(name)
    statuses = iter([400, 400])
    receiver = subscriber(lambda _: next(statuses, 200))
    arm.create_subscription(name, "crm", receiver.url, deadLetterDestination=letters.destination)
    console.sign_in(f"/topics/{name}")
    page = console.page
    page.get_by_role("button", name="Publish").click()
    console.says("1 event subscription matched.")
    ((letter,),) = letters.wait_for(1).values()
    page.get_by_role("link", name="crm").click()

    page.get_by_role("button", name="Show CRM").click()
    group = page.get_by_role("group", name="Dead letters in the blob")
    group.get_by_role("button", name=f"Resend {letter['id']}").click()
    console.says("sends it again")
    assert receiver.wait_for(lambda pushes: len(pushes) == 2)
    events = page.get_by_role("region", name="Latest events")
    # The event that was opened first stays open as the second failure is read.
    again = events.get_by_role("button", name=f"Resend {letter['id']}").locator("visible=true")
    again.first.click()
    assert receiver.wait_for(lambda pushes: len(pushes) > 2)

    assert {push.events[0]["id"] for push in receiver.pushes} == {letter["id"]}
    console.shows("% of 3", "Resend")
