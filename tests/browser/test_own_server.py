"""Dead letters of a server's own account in its console: listed, shown and sent again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.arm import ADMIN_KEY, Arm, dead_letter_destination
from tests.browser.conftest import Console, Start
from tests.e2e.publishing import an_event, send
from tests.e2e.test_serve import Serve
from tests.host.running import until


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Run a server instead of a Functions host."""
    folder: Path = tmp_path_factory.mktemp("served")
    environ = {"PUSHGRID_TIME_SCALE": "300", "PUSHGRID_ADMIN_KEY": ADMIN_KEY}
    with Serve(folder, **environ) as server:
        yield server


def test_its_dead_letters_are_listed_shown_and_sent_again(
    console: Console, arm: Arm, subscriber: Start, name: str
) -> None:
    arm.create_topic(name)
    statuses = iter([400])
    receiver = subscriber(lambda _: next(statuses, 200))
    own = dead_letter_destination("pushgrid", "dead")
    arm.create_subscription(name, "crm", receiver.url, deadLetterDestination=own)
    event = an_event()
    send(console.url, name, arm.key(name), [event])
    there = f"/topics/{name}/eventSubscriptions/crm/deadLetters"
    until(lambda: bool(arm._call("GET", there)["value"]), 60)

    console.sign_in(f"/topics/{name}/crm")
    console.shows("Container dead of storage account pushgrid")
    letters = console.page.get_by_role("region", name="Dead letters")
    letters.get_by_role("button", name="Show ").first.click()
    console.shows(event.id)
    console.page.get_by_role("button", name="Replay CRM").click()

    assert receiver.wait_for(lambda pushes: len(pushes) == 2)
    assert {push.events[0]["id"] for push in receiver.pushes} == {event.id}
