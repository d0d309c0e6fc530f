"""The console for everybody: rules of accessibility, light and dark, and the keyboard alone."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.arm import Arm
from testbed.subscriber import answers
from tests.browser.conftest import HERE, Console, Start
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import an_event, send

NARROW = {"width": 390, "height": 800}
LONG = "a-path-without-an-end/" * 8


@pytest.fixture
def told(console: Console, arm: Arm, subscriber: Start, letters: DeadLetters, name: str) -> str:
    """A topic whose subscriptions have something of everything to show, at long addresses."""
    arm.create_topic(name)
    for each, statuses in {"crm": [503, 200], "refusing": [400]}.items():
        url = f"{subscriber(answers(*statuses)).url}/{LONG}"
        arm.create_subscription(name, each, url, deadLetterDestination=letters.destination)
    send(console.url, name, arm.key(name), [an_event(number) for number in range(3)])
    return name


def test_nothing_sticks_out_and_there_are_no_barriers(
    console: Console, told: str, letters: DeadLetters
) -> None:
    letters.wait_for(1)
    page = console.page
    page.set_viewport_size(NARROW)
    console.open()
    page.get_by_label("Admin key").wait_for()
    suits_everybody(console)
    console.sign_in()
    console.shows("Latest failures", f"{told}/refusing", LONG)
    page.locator("summary").first.click()
    suits_everybody(console)
    page.get_by_role("link", name=told, exact=True).first.click()
    console.shows("Publish a test event", LONG)
    suits_everybody(console)
    page.get_by_role("link", name="refusing").click()
    console.shows("400 BadRequest", "given up", "Its dead-letter blob")
    page.get_by_role("button", name="Show REFUSING").first.click()
    console.shows("after 1 attempt, the last: 400 BadRequest")
    page.get_by_role("button", name="Forecast").click()
    console.shows("is never retried")
    page.get_by_role("button", name="Send a test event").click()
    console.shows("Request")
    page.get_by_role("button", name="Count only").click()
    console.shows("none; would send")
    suits_everybody(console)
    page.get_by_role("button", name="Replay all").click()
    page.get_by_role("dialog").wait_for()
    suits_everybody(console)


def suits_everybody(console: Console) -> None:
    """Check, dark and light, that nothing sticks out, and that no rule of axe-core is broken."""
    page = console.page
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        shown, visible = page.evaluate(
            "() => ['scrollWidth', 'clientWidth'].map((each) => document.documentElement[each])"
        )
        assert shown <= visible
        assert barriers(page) == []


def barriers(page: Any) -> list[str]:
    """Return what breaks a rule of axe-core."""
    page.evaluate((HERE / "node_modules/axe-core/axe.min.js").read_text())
    found = page.evaluate("() => axe.run()")
    return [
        f"{each['id']}: {node['html']}" for each in found["violations"] for node in each["nodes"]
    ]


def test_it_is_used_with_the_keyboard_alone(console: Console, arm: Arm, told: str) -> None:
    page = console.page
    console.open()
    page.get_by_label("Admin key").wait_for()
    for keys in ("Tab", arm.admin_key, "Enter"):
        (page.keyboard.press if len(keys) < 6 else page.keyboard.type)(keys)
    page.get_by_role("heading", name="Overview").wait_for()

    assert focused(page) == "content"  # where a screen reader goes on
    page.keyboard.press("Shift+Tab")
    page.get_by_role("link", name="Pushgrid").focus()
    page.keyboard.press("Shift+Tab")
    assert page.locator(":focus").inner_text() == "Skip to the content"
    page.keyboard.press("Enter")
    assert focused(page) == "content"

    page.get_by_label("Search names and endpoints").focus()
    page.keyboard.type(told)
    with page.expect_response("**/status/topics"), page.expect_response("**/status/health"):
        pass  # What is read again leaves focus and text alone.
    page.keyboard.type("/crm")
    console.shows("1 of")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "crm"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="crm", level=1).wait_for()
    assert focused(page) == "content"
    assert page.title() == "crm · Pushgrid console"


def test_buttons_keep_the_focus(console: Console, told: str, letters: DeadLetters) -> None:
    letters.wait_for(1)
    page = console.page
    page.set_viewport_size({"width": 1200, "height": 900})
    console.sign_in(f"/topics/{told}")
    press(console, "Publish", "Published event")
    page.get_by_role("link", name="refusing").click()
    press(console, "Pause", "Paused")
    press(console, "Resume", "Resumed")
    press(console, "Send a test event", "did not accept")
    press(console, "Forecast", "The forecast is ready.")
    press(console, "Show REFUSING", "Showing ")
    press(console, "Count only", "Dry run ")

    page.get_by_role("button", name="Replay all").focus()
    page.keyboard.press("Enter")
    question = page.get_by_role("dialog", name="Replay all dead letters?")
    assert f"will be sent again to {told}/refusing" in question.inner_text()
    assert page.locator(":focus").inner_text() == "Keep them"
    page.keyboard.press("Escape")
    question.wait_for(state="hidden")
    assert page.locator(":focus").inner_text() == "Replay all …"


def press(console: Console, name: str, result: str) -> None:
    """Press a button with the keyboard; it keeps the focus, and the result does not cover it."""
    page = console.page
    pressed = page.get_by_role("button", name=name).first
    pressed.focus()
    handle = pressed.element_handle()
    page.keyboard.press("Enter")
    console.says(result)
    assert page.evaluate("(button) => button === document.activeElement", handle)
    assert is_shown(handle)
    page.keyboard.press("Escape")
    assert page.evaluate("(button) => button === document.activeElement", handle)


def is_shown(button: Any) -> bool:
    """Return whether all of *button* is below the header and above the notice."""
    return bool(
        button.evaluate(
            """(button) => {
              const [header, own, notice] = [document.querySelector("header"), button,
                document.querySelector(".notice")].map((each) => each.getBoundingClientRect());
              return header.bottom <= own.top && own.bottom <= notice.top;
            }"""
        )
    )


def test_what_is_read_later_does_not_hide_the_pressed_button(
    console: Console, arm: Arm, name: str
) -> None:
    """
    The charts arrive above the button after the notice, and push it down.

    Nothing is scrolled before, so the browser's own scroll anchoring does not help.
    """
    arm.create_topic(name)
    page = console.page
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/metrics?**", hold)
    console.sign_in(f"/topics/{name}")
    publish = page.get_by_role("button", name="Publish")
    bottom = publish.evaluate("(button) => button.getBoundingClientRect().bottom")
    page.set_viewport_size({"width": 1200, "height": int(bottom) + 90})
    publish.click()
    console.says("Published event")
    assert is_shown(publish)

    for each in held:
        each.continue_()
    page.unroute("**/metrics?**")
    console.shows("Failed attempts: none in the last hour")

    assert is_shown(publish)
    assert page.evaluate("() => document.querySelector('header').getBoundingClientRect().top") == 0


def test_notices_differ_and_a_good_one_goes_by_itself(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    arm.create_topic(name)
    page = console.page
    page.clock.install()
    console.sign_in(f"/topics/{name}")
    notice, publish = page.locator(".notice p"), page.get_by_role("button", name="Publish")
    publish.click()
    console.says("Attention: Published event")
    console.says("the topic has no event subscription")
    page.clock.fast_forward(60_000)
    assert notice.is_visible()
    page.get_by_label("Data (JSON)").fill("{")
    publish.click()
    console.says("Failed: The data is not valid JSON")
    page.clock.fast_forward(60_000)
    assert notice.is_visible()
    page.keyboard.press("Escape")
    notice.wait_for(state="hidden")

    arm.create_subscription(name, "crm", subscriber().url)
    page.get_by_label("Data (JSON)").fill("{}")
    publish.click()
    console.says("Done: Published event")
    page.clock.fast_forward(60_000)
    notice.wait_for(state="hidden")
    assert page.locator(":focus").inner_text() == "Publish"


def focused(page: Any) -> str:
    return str(page.evaluate("() => document.activeElement.id"))
