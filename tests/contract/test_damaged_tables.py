"""Tables that are gone and rows without a document, on Azurite: neither is taken for empty."""

from __future__ import annotations

from itertools import count

import pytest
from azure.data.tables import TableClient

from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.errors import create_if_missing
from shared.adapters.azure_storage.metrics import TOTALS
from shared.adapters.azure_storage.tables import StorageResources
from shared.engine.ports import Table
from shared.errors import StorageUnavailable
from tests.functional.deployment import Logged

pytestmark = pytest.mark.parametrize("kind", ["azurite", "identity"], indirect=True)
ROWS = Table.EVENT_SUBSCRIPTIONS
DOCUMENT = {"name": "New"}


def _drop(account: StorageClients, *tables: str) -> None:
    for table in tables:
        account.table(table).delete_table()


@pytest.fixture
def on_storage(account: StorageClients | None) -> StorageClients:
    assert account
    return account


@pytest.mark.parametrize("lost", [Table.EVENT_SUBSCRIPTIONS, Table.TOPICS])
@pytest.mark.parametrize("also", [(), (Table.EVENT_SUBSCRIPTIONS, Table.TOPICS)])
def test_a_table_that_was_there_is_an_outage_when_it_is_gone(
    on_storage: StorageClients, lost: Table, also: tuple[Table, ...], logged: Logged
) -> None:
    """It read as "no subscriptions": 59 events were answered 200, and none delivered."""
    store = StorageResources(on_storage)
    store.put(Table.TOPICS, "topic", "orders", DOCUMENT, None)
    store.put(Table.EVENT_SUBSCRIPTIONS, "orders", "new", DOCUMENT, None)
    total = {"PartitionKey": "totals", "RowKey": "orders"}
    create_if_missing(
        lambda: on_storage.table(TOTALS).create_entity(total),
        on_storage.table(TOTALS).create_table,
        "TableNotFound",
    )
    _drop(on_storage, *({lost, *also}))

    for act in (
        lambda: store.get(lost, "orders", "new"),
        lambda: store.list(lost, "orders"),
        lambda: store.put(lost, "orders", "new", DOCUMENT, None),
    ):
        with pytest.raises(StorageUnavailable):
            act()

    assert {line["table"] for line in logged("table.missing")} == {lost}
    for table in {lost, *also}:
        on_storage.table(table).create_table()  # as an operator does
    assert store.get(lost, "orders", "new") is None
    assert store.put(lost, "orders", "new", DOCUMENT, None)


@pytest.mark.parametrize("act", ["list", "put"])
def test_a_table_that_another_process_makes_meanwhile_is_not_missing(
    on_storage: StorageClients, act: str, logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both timers of a new deployment write at once: the second took the first's for lost."""
    table_of, calls = on_storage.table, count(1)

    def overtaken(name: str) -> TableClient:
        if next(calls) == 2:  # after the request that has found no table
            StorageResources(on_storage).put(Table.TOPICS, "topic", "first", DOCUMENT, None)
        return table_of(name)

    monkeypatch.setattr(on_storage, "table", overtaken)
    store = StorageResources(on_storage)
    if act == "list":
        assert [each.name for each in store.list(Table.TOPICS, "topic")] == ["first"]
    else:
        assert store.put(Table.TOPICS, "topic", "second", DOCUMENT, None)

    assert logged("table.missing") == []


def test_the_first_put_makes_all_tables(on_storage: StorageClients) -> None:
    """So the subscriptions of a new topic are none, and no outage."""
    store = StorageResources(on_storage)

    store.put(Table.TOPICS, "topic", "orders", DOCUMENT, None)

    assert list(store.list(Table.EVENT_SUBSCRIPTIONS, "orders")) == []
    for table in Table:
        on_storage.table(table).create_entity({"PartitionKey": "a", "RowKey": "b"})


@pytest.mark.parametrize("table", [Table.REPLAYS, Table.ENDPOINT_HEALTH])
def test_these_tables_are_made_when_they_are_missing(
    on_storage: StorageClients, table: Table
) -> None:
    """What health holds is known anew within minutes; an older deployment lacks replays."""
    store = StorageResources(on_storage)
    store.put(Table.TOPICS, "topic", "orders", DOCUMENT, None)
    _drop(on_storage, table)

    assert store.get(table, "orders", "new") is None
    assert list(store.list(table, "orders")) == []
    assert store.put(table, "orders", "new", DOCUMENT, None).document == DOCUMENT
    assert store.put(Table.TOPICS, "topic", "bills", DOCUMENT, None)


@pytest.mark.parametrize("made", [0, 1, 2])
def test_a_first_put_that_died_half_way_is_repeated(on_storage: StorageClients, made: int) -> None:
    for table in (Table.EVENT_SUBSCRIPTIONS, Table.ENDPOINT_HEALTH)[:made]:
        on_storage.table(table).create_table()
    store = StorageResources(on_storage)

    assert store.get(Table.TOPICS, "topic", "orders") is None
    store.put(Table.TOPICS, "topic", "orders", DOCUMENT, None)

    assert list(store.list(Table.EVENT_SUBSCRIPTIONS, "orders")) == []


DAMAGED_ROWS: dict[str, dict[str, object]] = {
    "no document": {},
    "no JSON": {"document": "{"},
    "a list": {"document": "[1]"},
    "a number": {"document": 1},
    "nested too deeply": {"document": "[" * 30_000},
    "a part is missing": {"document": '{"a":', "document2": "1}"},
}


@pytest.mark.parametrize("damage", DAMAGED_ROWS)
def test_a_row_without_a_document_says_so_and_costs_no_other(
    on_storage: StorageClients, damage: str
) -> None:
    store = StorageResources(on_storage)
    whole = store.put(ROWS, "orders", "new", DOCUMENT, None)
    keys = {"PartitionKey": "orders", "RowKey": "damaged"}
    on_storage.table(ROWS).create_entity({**keys, **DAMAGED_ROWS[damage]})

    damaged, other = store.list(ROWS, "orders")

    assert store.get(ROWS, "orders", "Damaged") == damaged
    assert (damaged.name, damaged.document, other) == ("damaged", {}, whole)
    assert damaged.fault.startswith("the row holds ")
    repaired = store.put(ROWS, "orders", "damaged", DOCUMENT, damaged.etag)
    assert (repaired.document, repaired.fault) == (DOCUMENT, "")
