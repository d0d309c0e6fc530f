"""What comes from outside is text, whatever it says: events, answers, addresses."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from testbed.arm import Arm
from testbed.subscriber import Push, Reply
from tests.browser.conftest import Console, Start
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import post

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script><b onclick='alert(3)'>\"'&amp;"


def hostile(_: Push) -> Reply:
    """Refuse an event with markup in the headers and in the body."""
    return Reply(400, MARKUP.encode(), {"x-markup": MARKUP})


def test_markup_from_outside_is_shown_as_text(
    console: Console, arm: Arm, subscriber: Start, letters: DeadLetters, name: str
) -> None:
    arm.create_topic(name)
    url = subscriber(hostile).url
    arm.create_subscription(name, "crm", url, deadLetterDestination=letters.destination)
    event = {
        "id": MARKUP,
        "subject": MARKUP,
        "eventType": MARKUP,
        "eventTime": "2026-02-09T12:00:00Z",
        "data": {MARKUP: MARKUP},
        "dataVersion": "1",
    }
    assert post(console.url, name, arm.key(name), json.dumps([event]).encode()).ok
    console.sign_in(f"/topics/{name}/crm")
    page = console.page

    console.shows("400 BadRequest", MARKUP)
    page.get_by_role("button", name="Send a test event").click()
    console.says("did not accept")
    page.get_by_role("button", name="Show CRM").click()
    console.says("Showing 1 dead letter.")

    # The answer of the test, and that of the attempt: in its timeline and beside the dead letter.
    assert page.locator("pre", has_text=MARKUP).count() == 3
    assert page.locator("pre", has_text=json.dumps(MARKUP)).count() == 1  # the dead letter
    assert page.locator("main img, main script, main b, main iframe").count() == 0
    page.get_by_role("link", name="Pushgrid").click()
    console.shows(MARKUP)


@pytest.mark.parametrize(
    "path", [f"/topics/{MARKUP}/{MARKUP}", "/topics/%E0%A4%A/x", "/topics//", "javascript:alert(1)"]
)
def test_an_address_is_text_as_well(console: Console, path: str) -> None:
    console.sign_in(path)
    page = console.page

    page.get_by_role("heading", level=1).wait_for()
    page.locator(".panel").first.wait_for()
    assert page.locator("main img, main script, main b").count() == 0


ATTACKS = {
    "markup": "body.innerHTML = '<b>markup</b>'",
    "code": "setTimeout('alert(1)')",
    "style": "body.setAttribute('style', 'color: red')",
    "image": "body.appendChild(document.createElement('img')).src = 'http://127.0.0.1:1/'",
    "request": "fetch('http://127.0.0.1:1/')",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_policy_stops_what_would_get_through(console: Console, attack: str) -> None:
    """The control of all other tests: such a fault is noticed."""
    console.open()
    console.page.get_by_label("Admin key").wait_for()

    with suppress(Exception):  # of Playwright: some attacks raise where they are made
        console.page.evaluate(f"() => {{ const {{ body }} = document; {ATTACKS[attack]} }}")

    console.does_wrong("CSP", "error")
    console.open()  # after all that this page has done wrong
    console.faults.clear()
