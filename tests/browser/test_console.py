"""The console as an operator uses it: in a browser, on the host, Azurite and real endpoints."""

from __future__ import annotations

from collections.abc import Callable

from testbed.arm import Arm
from testbed.subscriber import Subscriber
from tests.browser.conftest import HERE, ROOT, Console

CONSOLE = ROOT / "shared" / "console"


def test_it_asks_for_the_key_and_shows_what_there_is(
    console: Console, arm: Arm, subscriber: Callable[..., Subscriber], name: str
) -> None:
    arm.create_topic(name)
    arm.create_subscription(name, "crm", subscriber().url)
    console.sign_in()

    page = console.page
    page.get_by_role("link", name=name).first.wait_for()
    page.get_by_label("Search names and endpoints").fill(name)
    line = page.get_by_role("row").filter(has_text=f"crm{name}")
    assert "delivering" in line.inner_text()
    assert page.get_by_role("heading", level=1).inner_text() == "Overview"


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
