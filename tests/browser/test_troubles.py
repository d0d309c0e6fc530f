"""Total failure at a glance: overview and `status` name each subscription in trouble, and why."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.eventgrid import EventGridEvent

from cli.status import word
from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from pushgrid.testing.memory import START
from shared.clock import timestamp
from shared.delivery.gate import Held, Open
from shared.engine.operations.activity import Activity
from shared.engine.operations.troubles import Facts, trouble_of
from shared.subscriptions.diagnosis import while_awaited
from shared.subscriptions.subscription import Pause
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import PATIENCE, Push, Reply, Subscriber
from tests.browser.conftest import Console, Start
from tests.browser.test_usability import NARROW, suits_everybody
from tests.builders import CRM, a_subscription
from tests.commands import Printed, Run
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import send

MANY = 3000
ORDER = ["refusing", "hanging", "paused", "expired", "slow"]
REMEDIES = {
    "refusing": "pushgrid timeline --topic orders --subscription refusing",
    "paused": "pushgrid subscription resume paused --topic orders",
    "expired": "pushgrid subscription update expired --topic orders --expires TIME",
    "slow": "pushgrid subscription update slow --topic orders --batch 100",
}
CAUSES = {
    "refusing": "400 BadRequest",
    "hanging": "TimedOut",
    "paused": "by the admin key",
    "expired": "expired",
}


@pytest.fixture(scope="module")
def host(own_azurite: Azurite) -> Iterator[RunningHost]:
    """A host that waits as Event Grid does: what fails stays so while it is looked at."""
    with running_host(host_settings(own_azurite, PUSHGRID_ATTEMPT_LOG="all")) as running:
        yield running


def refuses(_: Push) -> Reply:
    return Reply(400, b'{"error": "there is no customer 4711"}')


def allows_little(_: Push) -> Reply:
    return Reply(200, headers={"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "60"})


def test_the_overview_names_all_that_is_wrong_in_order_of_harm(
    console: Console, arm: Arm, subscriber: Start, letters: DeadLetters, pushgrid: Run
) -> None:
    end = threading.Event()

    def hang(_: Push) -> int:
        end.wait(PATIENCE)
        return 200

    endpoints: dict[str, tuple[Subscriber, dict[str, Any]]] = {
        "refusing": (subscriber(refuses), {"deadLetterDestination": letters.destination}),
        "hanging": (subscriber(hang), {}),
        "paused": (subscriber(), {}),
        "expired": (subscriber(), {}),
        "slow": (
            subscriber(consent=allows_little),
            {"eventDeliverySchema": "CloudEventSchemaV1_0"},
        ),
    }
    arm.create_topic("orders")
    for each, (receiver, properties) in endpoints.items():
        only = {"includedEventTypes": [each]}
        if each == "expired":
            soon = datetime.now(UTC) + timedelta(seconds=10)
            properties["expirationTimeUtc"] = soon.isoformat()
        arm.create_subscription("orders", each, receiver.url, filter=only, **properties)
    arm.act("orders", "paused", "pause")
    for each, count in {"refusing": 3, "hanging": 2, "paused": 4, "slow": MANY}.items():
        events = [EventGridEvent(f"/orders/{n}", each, {}, "1.0") for n in range(count)]
        send(console.url, "orders", arm.key("orders"), events)

    try:
        console.sign_in()
        page = console.page
        wrong = page.get_by_role("region", name="What is wrong")
        troubles = wrong.get_by_role("listitem")
        wrong.locator("li:nth-child(5)").filter(has_text="slow").wait_for()
        troubles.filter(has_text="orders/paused").filter(has_text="4 events wait").wait_for()
        troubles.filter(has_text="orders/hanging").filter(has_text="TimedOut").wait_for()
        given_up = "0 events wait; 3 given up, due to be dead-lettered or dropped within 5 min"
        troubles.filter(has_text="orders/refusing").filter(has_text=given_up).wait_for()
        shown = troubles.all_inner_texts()
        status, as_text = pushgrid("status", "--json"), pushgrid("status")
        judge_the_views(console)
    finally:
        end.set()

    named = [next(each for each in ORDER if f"orders/{each}" in text) for text in shown]
    assert (set(named[:2]), named[2:]) == (set(ORDER[:2]), ORDER[2:])
    by_name = dict(zip(named, shown, strict=True))
    judge_the_status(status, as_text)
    for each, cause in CAUSES.items():
        assert cause in by_name[each]
    assert "there is no customer 4711" in by_name["refusing"]
    for each, remedy in REMEDIES.items():
        assert f"Remedy: {remedy}" in by_name[each]


def judge_the_status(status: Printed, as_text: Printed) -> None:
    assert (status.code, as_text.code, status.document["status"]) == (1, 1, "degraded")
    troubles = {each["subscription"]: each for each in status.document["troubles"]}
    first, second, *others = [each["kind"] for each in troubles.values()]
    assert (first, others) == ("failing", ["paused", "expired", "slow"])
    assert second in {"failing", "held"}
    assert [troubles[each]["waiting"] for each in ("refusing", "hanging", "paused")] == [0, 2, 4]
    assert troubles["refusing"]["awaitingBlob"] == 3
    assert troubles["slow"]["waiting"] > MANY / 2
    waiting = sum(each["waiting"] for each in troubles.values())
    assert status.document["waiting"]["events"] == waiting
    lines = as_text.out.splitlines()
    heads = [line.split()[0] for line in lines if line.startswith("orders/") and " is " in line]
    assert heads == [f"orders/{each}" for each in troubles]
    for each in troubles:
        at = next(n for n, line in enumerate(lines) if line.startswith(f"orders/{each} is"))
        assert lines[at + 1].strip()
        assert "orders" in lines[at + 2]


def judge_the_views(console: Console) -> None:
    """Save the pictures, and check that everybody can read them."""
    page = console.page
    console.shows("degraded", "Succeeded", "0 % of 3")
    row = page.get_by_role("row").filter(has_text="orders").filter(has_text="refusing")
    assert "failing" in row.inner_text()
    console.screenshot("overview")
    page.emulate_media(color_scheme="dark")
    console.screenshot("overview-dark")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(NARROW)
    console.screenshot("overview-narrow")
    suits_everybody(console)
    page.set_viewport_size({"width": 1200, "height": 1000})
    page.get_by_role("link", name="orders/refusing").click()
    console.shows(
        "there is no customer 4711", "failing", "Configuration", "Attempt 1", "Failed attempts: 3"
    )
    console.screenshot("subscription")
    suits_everybody(console)


def test_a_subscription_s_state_is_the_first_that_status_names(console: Console) -> None:
    """Whatever it is at the same time."""
    names = ("fails", "is_held", "is_paused", "is_expired", "awaits")
    chosen = itertools.product((False, True), repeat=len(names))
    found = (both(**dict(zip(names, each, strict=True))) for each in chosen)
    read, expected = zip(*found, strict=True)
    console.open()

    shown = console.page.evaluate(
        "async (all) => { const { stateOf } = await import('/console/parts.js');"
        " return all.map((each) => stateOf(each).word) }",
        list(read),
    )

    assert shown == list(expected)


def both(
    *, fails: bool, is_held: bool, is_paused: bool, is_expired: bool, awaits: bool
) -> tuple[dict[str, Any], str]:
    """Return a subscription as the console reads it, and the word for it in `pushgrid status`."""
    until = START + timedelta(minutes=5)
    known = a_subscription(
        pause=Pause(START, "ada") if is_paused else None,
        expires_at=START if is_expired else None,
        has_consented=not awaits,
    )
    facts = Facts(
        key=CRM,
        subscription=known,
        availability=Held(until, "busy") if is_held else Open(),
        activity=Activity(failing_since=START if fails else None),
        pending_consent=while_awaited(None, known) if awaits else None,
    )
    trouble = trouble_of(facts, START)
    read = {
        "isReadable": True,
        "isExpired": is_expired,
        "hasConsented": not awaits,
        "paused": {"since": timestamp(START), "by": "ada"} if is_paused else None,
        "held": {"until": timestamp(until), "why": "busy"} if is_held else None,
        "trouble": trouble and {"kind": trouble.kinds[0], "why": trouble.why},
    }
    return read, word(trouble.kinds[0]) if trouble else "delivering"
