"""The console as an operator uses it: in a browser, on the host, Azurite and real endpoints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from devhost.azurite import Azurite
from testbed.arm import Arm
from testbed.subscriber import Subscriber, answers
from tests.browser.conftest import HERE, ROOT, Console
from tests.e2e.dead_letters import DeadLetters

CONSOLE = ROOT / "shared" / "console"


@pytest.fixture
def dead_letters(own_azurite: Azurite) -> DeadLetters:
    return DeadLetters.into_a_new_container(own_azurite)


def test_the_story_of_the_demo(
    console: Console,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    dead_letters: DeadLetters,
    name: str,
) -> None:
    arm.create_topic(name)
    for each, statuses in (
        ("healthy", [200]),
        ("recovering", [503, 503, 200]),
        ("refusing", [400]),
    ):
        url = subscriber(answers(*statuses)).url
        arm.create_subscription(name, each, url, deadLetterDestination=dead_letters.destination)
    console.sign_in(f"/topics/{name}")
    page = console.page

    page.get_by_label("Type").fill("Shop.OrderPlaced")
    page.get_by_role("button", name="Publish").click()
    console.says("Published event")

    page.get_by_role("link", name="recovering").click()
    console.shows("Attempt 1", "503 Busy", "Next at", "minimum for 503")
    console.shows("Attempt 3", "200 Delivered")
    console.shows("Delivered: 1 in the last hour")

    page.get_by_role("link", name=name).click()
    page.get_by_role("link", name="refusing").click()
    console.shows("400 BadRequest", "dead-lettered", "Its dead-letter blob is due")
    page.get_by_role("button", name="Show REFUSING").click()
    console.says("1 dead letters are shown.")
    console.shows("UndeliverableDueToHttpBadRequest", "Shop.OrderPlaced")

    page.get_by_role("link", name="Pushgrid").click()
    console.shows("Latest failures", f"{name}/refusing", f"{name}/recovering")
    console.screenshot("overview")


def test_a_wrong_key_is_told_and_shows_nothing(console: Console, arm: Arm, name: str) -> None:
    arm.create_topic(name)
    console.sign_in(key="wrong")

    page = console.page
    assert "not the admin key" in page.get_by_role("alert").filter(has_text="key").inner_text()
    assert name not in page.content()
    assert page.get_by_label("Admin key").input_value() == "wrong"


def test_the_copy_of_the_library_is_what_the_package_holds() -> None:
    package = HERE / "node_modules" / "preact"

    assert (CONSOLE / "preact.mjs").read_bytes() == (package / "dist/preact.mjs").read_bytes()
    assert (CONSOLE / "preact-license.txt").read_bytes() == (package / "LICENSE").read_bytes()
