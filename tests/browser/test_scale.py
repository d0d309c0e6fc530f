"""The console of a large deployment: a thousand subscriptions, ten thousand dead letters."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime

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
MANY = 500  # subscriptions, as many as a topic can have
_TRANSACTION = 100  # rows
# The time from the press of a button until there are rows, and until they have been painted.
SIGN_IN = """
    async (key) => {
      document.querySelector("input").value = key;
      const began = performance.now();
      document.querySelector("form").requestSubmit();
      while (!document.querySelector("tbody tr")) await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      return performance.now() - began;
    }
"""


def seconds_until_painted(console: Console, key: str) -> float:
    """Return the median time from signing in until the rows of the overview are painted."""

    def once() -> float:
        console.page.goto("about:blank")
        console.open()
        console.page.get_by_label("Admin key").wait_for()
        return float(console.page.evaluate(SIGN_IN, key)) / 1000

    return statistics.median(once() for _ in range(3))


def seconds_to_list(arm: Arm, count: int) -> float:
    """Return the time that an ARM client takes to list so many subscriptions: the control."""
    deployment = Deployment(url=arm.url, token=lambda: arm.admin_key)
    began, found, last = time.perf_counter(), 0, ""
    while found < count:
        query = {"$top": 100, "$skipToken": last} if last else {"$top": 100}
        page = deployment.get("eventSubscriptions", **query)
        found += len(page["value"])
        last = f"{page['value'][-1]['name']} {page['value'][-1]['id']}".lower()
    return time.perf_counter() - began


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

    painted = seconds_until_painted(console, arm.admin_key)
    listed = seconds_to_list(arm, 400)

    report(f"console: 1,000 subscriptions {painted:.2f} s; 400 from ARM lists {listed:.2f} s")
    assert painted < listed
    page = console.page
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
    console: Console, arm: Arm, subscriber: Start, own_azurite: Azurite
) -> None:
    letters = DeadLetters.into_a_new_container(own_azurite)
    arm.create_topic("late")
    url = subscriber(answers(400)).url
    arm.create_subscription("late", "many", url, deadLetterDestination=letters.destination)
    send(console.url, "late", arm.key("late"), [an_event()])
    ((_, (letter,)),) = letters.wait_for(1).items()
    for number, records in enumerate([1] * 40 + [MAX_BLOB_RECORDS] * 10):
        path = dead_letter_path("late", "many", datetime.now(UTC), f"{number:04}")
        letters.container.upload_blob(path, json.dumps([letter] * records))
    console.sign_in("/topics/late/many")
    page = console.page

    show = page.get_by_role("button", name="Show MANY")
    show.nth(19).wait_for()
    assert show.count() == 20
    page.get_by_role("button", name="0049.json").click()
    console.says(f"Showing {MAX_BLOB_RECORDS} dead letters.")
    console.shows("1 to 50 of 1000")
    assert page.get_by_role("group", name="Dead letters in the blob").locator("pre").count() == 50
    page.get_by_role("button", name="Show older ones").click()
    show.nth(39).wait_for()
    show.nth(39).click()
    console.says("Showing 1 dead letter.")
