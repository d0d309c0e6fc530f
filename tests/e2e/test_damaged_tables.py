"""Damaged tables as a running host meets them: each costs only itself, and none reads as empty."""

from __future__ import annotations

from collections.abc import Callable

from azure.data.tables import TableClient, UpdateMode

from devhost.azurite import Azurite, running_azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Subscriber
from tests.e2e.publishing import ONE_EVENT, an_event, ids, post, send
from tests.e2e.waiting import messages


def table_of(azurite: Azurite, name: str) -> TableClient:
    return TableClient.from_connection_string(azurite.connection_string, name)


def test_an_unreadable_row_and_a_missing_table_lose_nothing(
    subscriber: Callable[..., Subscriber], name: str
):
    crm, audit = subscriber(), subscriber()
    first, second = an_event(1), an_event(2)
    with running_azurite() as azurite, table_of(azurite, "eventsubscriptions") as table:
        settings = host_settings(azurite, PUSHGRID_CACHE_SECONDS="0")
        with running_host(settings) as host:
            arm = Arm(host.url)
            arm.create_topic(name)
            key = arm.key(name)
            for each, receiver in (("crm", crm), ("audit", audit)):
                arm.create_subscription(name, each, receiver.url)
            row = {"PartitionKey": name, "RowKey": "crm", "document": "{"}
            table.update_entity(row, UpdateMode.REPLACE)

            send(host.url, name, key, [first])
            assert audit.wait_for(lambda pushes: first.id in ids(pushes))
            arm.create_subscription(name, "crm", crm.url)
            send(host.url, name, key, [second])
            for waiting in (crm, audit):  # a part that is judged later finds no table
                assert waiting.wait_for(lambda pushes: second.id in ids(pushes))

            assert first.id not in ids(crm.pushes)  # It is matched when its five minutes are over.
            table.delete_table()
        with running_host(settings) as host:
            answer = post(host.url, name, key, ONE_EVENT)
            kept = messages(azurite)

    assert (answer.status_code, kept) == (503, 1)
