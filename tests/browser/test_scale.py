"""The console of a large deployment: a thousand subscriptions, ten thousand dead letters."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from azure.data.tables import TableServiceClient

from devhost.azurite import Azurite
from shared.adapters.azure_storage.tables import _entity
from shared.deadletter.paths import dead_letter_path
from shared.deadletter.record import MAX_BLOB_RECORDS
from testbed.arm import Arm
from testbed.subscriber import answers
from tests.browser.conftest import Console, Start
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import an_event, send

MANY = 500  # subscriptions, as many as a topic can have
MOST_PATHS = 60  # that a view asks for, with its own files: it has 10 topics and 20 subscriptions
SHOWN = 50  # rows of a table, and events of a blob
_TRANSACTION = 100  # rows


def paths_asked(page: Any) -> set[str]:
    """Return the paths that the page asks for from now on, as they come."""
    paths: set[str] = set()
    page.on("request", lambda request: paths.add(urlsplit(request.url).path))
    return paths


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
    console: Console, arm: Arm, subscriber: Start, own_azurite: Azurite
) -> None:
    url = subscriber().url
    for topic in ("orders", "billing"):
        arm.create_topic(topic)
        arm.create_subscription(topic, "crm", url)
        copies(own_azurite, topic, MANY - 1)
    page = console.page
    paths = paths_asked(page)
    console.sign_in()

    search = page.get_by_label("Search names and endpoints")
    search.fill("/crm")
    console.shows("1000 of 100", "1 to 50 of 1000")
    listed = page.get_by_role("group", name="Event subscriptions").locator("tbody tr")
    assert listed.count() == SHOWN
    page.get_by_role("button", name="Next").click()
    console.shows("51 to 100 of 1000")
    search.fill("orders/crm-49")
    console.shows("10 of 100")
    assert len(paths) < MOST_PATHS
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
    (letter,) = letters.wait_for(1).values()
    for number, records in enumerate([1] * 40 + [MAX_BLOB_RECORDS] * 10):
        path = dead_letter_path("late", "many", datetime.now(UTC), f"{number:04}")
        letters.container.upload_blob(path, json.dumps([letter[0]] * records))
    page = console.page
    paths = paths_asked(page)
    console.sign_in("/topics/late/many")

    show = page.get_by_role("button", name="Show MANY")
    show.nth(19).wait_for()
    assert show.count() == 20
    console.shows("UndeliverableDueToHttpBadRequest")
    page.get_by_role("button", name="Show MANY").filter(has_text="0049.json").click()
    console.says(f"Showing {MAX_BLOB_RECORDS} dead letters.")
    console.shows("1 to 50 of 1000")
    records = page.get_by_role("group", name="Dead letters in the blob").locator("details")
    assert records.count() == SHOWN
    page.get_by_role("button", name="Show older ones").click()
    show.nth(39).wait_for()
    show.nth(39).click()
    console.says("Showing 1 dead letter.")
    assert len(paths) < MOST_PATHS
