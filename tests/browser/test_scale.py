"""The console of a large deployment: a thousand subscriptions, ten thousand dead letters."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from azure.data.tables import TableServiceClient

from cli.deployment import Deployment
from devhost.azurite import Azurite
from shared.adapters.storage.tables import _entity
from shared.deadletter.batching import MAX_BLOB_RECORDS, dead_letter_path
from testbed.arm import Arm
from testbed.subscriber import Subscriber, answers
from tests.browser.conftest import Console
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import an_event, send

Start = Callable[..., Subscriber]
# How many times longer than the control, a page with few: measured were 3 to 6, and 2 to 5.
LONGER_WITH_SUBSCRIPTIONS = 20  # it is 160 with a request for each
LONGER_WITH_DEAD_LETTERS = 10  # it is 19 with all of them drawn
MANY = 500  # subscriptions, as many as a topic can have
_TRANSACTION = 100  # rows
RUNS = 5
# The time in ms from the press of a button until there are rows, and until they have been painted.
SIGN_IN = """
    async ([key, rows]) => {
      document.querySelector("input").value = key;
      const began = performance.now();
      document.querySelector("form").requestSubmit();
      while (!document.querySelector(rows)) await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      return performance.now() - began;
    }
"""
# The same from the change of the address until the rows of a panel are painted.
VISIT = """
    async ([address, rows]) => {
      location.hash = "#/";
      while (document.querySelector(rows)) await new Promise(requestAnimationFrame);
      const began = performance.now();
      location.hash = address;
      while (!document.querySelector(rows)) await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      return performance.now() - began;
    }
"""
SUBSCRIPTIONS = "[aria-labelledby=panel-subscriptions] tbody tr"
DEAD_LETTERS = "[aria-labelledby=panel-dead-letters] tbody tr"


def medians(*measure: Callable[[], float]) -> list[float]:
    """Return the median of what each measures, in turns, so that a busy machine slows all."""
    rounds = [[each() for each in measure] for _ in range(RUNS)]
    return [statistics.median(each) for each in zip(*rounds, strict=True)]


def few_of(answer: Any) -> str:
    """Return an answer of `status/topics` with one subscription of each topic."""
    topics = [topic | {"subscriptions": topic["subscriptions"][:1]} for topic in answer["value"]]
    return json.dumps(answer | {"value": topics})


def copies(azurite: Azurite, topic: str, count: int) -> None:
    """Store so many subscriptions like that of the name ``crm``."""
    with TableServiceClient.from_connection_string(azurite.connection_string) as service:
        table = service.get_table_client("eventsubscriptions")
        entity = table.get_entity(topic, "crm")
        document = json.loads(entity["document"])
        names = [f"crm-{number}" for number in range(count)]
        rows = [("create", _entity(topic, name, document | {"name": name})) for name in names]
        for first in range(0, count, _TRANSACTION):
            table.submit_transaction(rows[first : first + _TRANSACTION])


def test_a_thousand_subscriptions_stay_usable(
    console: Console,
    arm: Arm,
    subscriber: Start,
    own_azurite: Azurite,
    report: Callable[[str], None],
) -> None:
    url = subscriber().url
    for topic in ("orders", "billing"):
        arm.create_topic(topic)
        arm.create_subscription(topic, "crm", url)
        copies(own_azurite, topic, MANY - 1)

    page = console.page
    deployment = Deployment(url=arm.url, token=lambda: arm.admin_key)
    few = few_of(deployment.status("topics"))

    def sign_in() -> float:
        page.goto("about:blank")
        console.open()
        page.get_by_label("Admin key").wait_for()
        return float(page.evaluate(SIGN_IN, [arm.admin_key, SUBSCRIPTIONS]))

    def sign_in_with_few() -> float:
        page.route("**/status/topics", lambda route: route.fulfill(body=few))
        try:
            return sign_in()
        finally:
            page.unroute("**/status/topics")

    many, control = medians(sign_in, sign_in_with_few)

    report(f"console: 1,000 subscriptions painted after {many:.0f} ms, 2 after {control:.0f} ms")
    assert many < LONGER_WITH_SUBSCRIPTIONS * control
    sign_in()
    search = page.get_by_label("Search names and endpoints")
    search.fill("/crm")
    console.shows("1000 of 100", "1 to 50 of 1000")
    assert page.locator("tbody").last.locator("tr").count() == 50
    page.get_by_role("button", name="Next").click()
    console.shows("51 to 100 of 1000")
    search.fill("orders/crm-49")
    console.shows("10 of 100")
    page.get_by_role("link", name="crm-490").click()
    console.shows("delivering", url)


def test_ten_thousand_dead_letters_stay_usable(
    console: Console,
    arm: Arm,
    subscriber: Start,
    own_azurite: Azurite,
    report: Callable[[str], None],
) -> None:
    letters = DeadLetters.into_a_new_container(own_azurite)
    arm.create_topic("late")
    url = subscriber(answers(400)).url
    for name in ("many", "few"):
        arm.create_subscription("late", name, url, deadLetterDestination=letters.destination)
    send(console.url, "late", arm.key("late"), [an_event()])
    (letter,), *_ = letters.wait_for(2).values()
    for number, records in enumerate([1] * 40 + [MAX_BLOB_RECORDS] * 10):
        path = dead_letter_path("late", "many", datetime.now(UTC), f"{number:04}")
        letters.container.upload_blob(path, json.dumps([letter] * records))
    console.sign_in()
    page = console.page

    def open_view(name: str) -> float:
        return float(page.evaluate(VISIT, [f"#/topics/late/{name}", DEAD_LETTERS]))

    many, control = medians(lambda: open_view("many"), lambda: open_view("few"))

    report(f"console: 10,000 dead letters painted after {many:.0f} ms, 1 after {control:.0f} ms")
    assert many < LONGER_WITH_DEAD_LETTERS * control
    open_view("many")
    show = page.get_by_role("button", name="Show MANY")
    show.nth(19).wait_for()
    assert show.count() == 20
    page.get_by_role("button", name="Show MANY").filter(has_text="0049.json").click()
    console.says(f"Showing {MAX_BLOB_RECORDS} dead letters.")
    console.shows("1 to 50 of 1000")
    shown = page.get_by_role("group", name="Dead letters in the blob").locator("pre")
    assert shown.count() == 2 * 50  # events, and what their endpoint answered
    page.get_by_role("button", name="Show older ones").click()
    show.nth(39).wait_for()
    show.nth(39).click()
    console.says("Showing 1 dead letter.")
