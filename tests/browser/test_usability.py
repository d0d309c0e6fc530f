"""The console for everybody: rules of accessibility, light and dark, and the keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testbed.arm import Arm
from testbed.subscriber import Subscriber, answers
from tests.browser.conftest import HERE, Console

Start = Callable[..., Subscriber]


@pytest.fixture
def told(arm: Arm, subscriber: Start, name: str) -> str:
    """A topic whose subscription has something of everything to show."""
    arm.create_topic(name)
    arm.create_subscription(name, "crm", subscriber(answers(503, 200)).url)
    return name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_there_are_no_barriers(console: Console, told: str, scheme: str) -> None:
    page = console.page
    page.emulate_media(color_scheme=scheme)
    axe = (HERE / "node_modules/axe-core/axe.min.js").read_text()
    console.open()
    page.get_by_label("Admin key").wait_for()
    assert barriers(page, axe) == []
    console.sign_in(f"/topics/{told}")
    page.get_by_role("button", name="Publish").click()
    console.says("Published event")
    console.shows("Delivered:")
    assert barriers(page, axe) == []
    page.get_by_role("link", name="crm").click()
    console.shows("503 Busy", "200 Delivered", "Dead letters")
    page.get_by_role("button", name="Forecast").click()
    console.shows("delivered after")
    page.get_by_role("button", name="Send a test event").click()
    console.shows("Request")
    assert barriers(page, axe) == []
    page.get_by_role("link", name="Pushgrid").click()
    console.shows("Latest failures", f"{told}/crm")
    page.locator("summary").first.click()
    assert barriers(page, axe) == []


def barriers(page: Any, axe: str) -> list[str]:
    """Return what breaks a rule of axe-core."""
    page.evaluate(axe)
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


def focused(page: Any) -> str:
    return str(page.evaluate("() => document.activeElement.id"))
