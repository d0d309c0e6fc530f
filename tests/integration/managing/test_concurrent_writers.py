"""Many writers at once, on real storage: nothing is lost, and no limit exceeded."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from devhost.azurite import Azurite
from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.tables import StorageResources
from shared.engine.manage import subscriptions
from shared.engine.ports import Table
from shared.races import backoff_seconds
from tests.functional.manage.arm_api import CRM, ORDERS, ArmApi, hook

WRITERS = 24
EXTENSION = f"{ORDERS}/providers/Microsoft.EventGrid/eventSubscriptions/crm"


@pytest.fixture
def api(azurite: Azurite) -> Iterator[ArmApi]:
    account = StorageClients({"": azurite.connection_string}, prefix=f"t{uuid.uuid4().hex[:12]}")
    api = ArmApi()
    api.reconfigure(
        resources=StorageResources(account),
        new_id=lambda: str(uuid.uuid4()),
        new_key=lambda: uuid.uuid4().hex,
        backoff=lambda lost: time.sleep(backoff_seconds(lost, random.random())),
    )
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    yield api
    for table in (Table.TOPICS, Table.EVENT_SUBSCRIPTIONS):
        account.table(table).delete_table()


def at_once(write: Callable[[int], int]) -> list[int]:
    with ThreadPoolExecutor(WRITERS) as pool:
        return sorted(pool.map(write, range(WRITERS)))


def test_every_writer_of_one_subscription_succeeds(api: ArmApi) -> None:
    """Each of three members is changed by eight writers, who use both forms of the path."""
    api.json("PUT", CRM, hook(), status=201)

    def patch(number: int) -> int:
        members: dict[str, object] = {
            "labels": [str(number)],
            "filter": {"subjectBeginsWith": str(number)},
            "retryPolicy": {"maxDeliveryAttempts": number + 1},
        }
        name = list(members)[number % len(members)]
        return api.call("PATCH", [CRM, EXTENSION][number % 2], {name: members[name]}).status

    assert at_once(patch) == [201] * WRITERS
    stored = api.json("GET", CRM)["properties"]
    numbers = (
        int(stored["labels"][0]),
        int(stored["filter"]["subjectBeginsWith"]),
        stored["retryPolicy"]["maxDeliveryAttempts"] - 1,
    )
    assert [number % 3 for number in numbers] == [0, 1, 2]


def test_no_more_are_created_than_a_topic_may_have(
    api: ArmApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MAX_SUBSCRIPTIONS", 5)

    statuses = at_once(
        lambda number: api.call("PUT", f"{ORDERS}/eventSubscriptions/s-{number}", hook()).status
    )

    stored = api.table.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders")
    assert len(stored) == statuses.count(201) <= 5
    assert set(statuses) <= {201, 400, 409}
    listed = json.loads(api.call("GET", f"{ORDERS}/eventSubscriptions").body)["value"]
    assert len(listed) == len(stored)
