"""ResourceStore: documents under ETags, in memory and on Azurite."""

from __future__ import annotations

import pytest

from shared.engine.ports import ResourceStore, Store, Table
from shared.errors import Conflict, InvalidDocument

TABLE = Table.EVENT_SUBSCRIPTIONS
DOCUMENT = {"name": "New", "properties": {"list": [1, 2.5, None, True], "text": "ü \ud800 '\\"}}


@pytest.fixture
def store(stored: Store) -> ResourceStore:
    """Give an empty store without tables."""
    return stored.documents


def test_a_missing_table_is_empty(store: ResourceStore) -> None:
    got = store.get(TABLE, "orders", "new")
    listed = store.list(TABLE, "orders")

    assert (got, list(listed), store.delete(TABLE, "orders", "new")) == (None, [], False)


def test_a_store_that_stores_has_no_fault(stored: Store) -> None:
    stored.documents.put(TABLE, "orders", "new", DOCUMENT, None)

    assert stored.fault == ""


def test_a_document_comes_back_as_it_was(store: ResourceStore) -> None:
    put = store.put(TABLE, "orders", "new", DOCUMENT, None)

    got = store.get(TABLE, "orders", "new")

    assert put.document == DOCUMENT
    assert got == put


def test_all_documents_of_a_table_are_listed(store: ResourceStore) -> None:
    """Whatever their partition; those of other tables are not."""
    assert list(store.list_all(TABLE)) == []
    stored = [store.put(TABLE, topic, "new", {"in": topic}, None) for topic in ("orders", "parts")]
    store.put(Table.TOPICS, "topic", "orders", DOCUMENT, None)

    assert list(store.list_all(TABLE)) == stored


def test_keys_have_no_case(store: ResourceStore) -> None:
    store.put(TABLE, "Orders", "New", DOCUMENT, None)

    got = store.get(TABLE, "oRDERS", "nEW")

    assert got is not None
    assert len(store.list(TABLE, "ORDERS")) == 1
    assert store.delete(TABLE, "orderS", "NEW")


def test_a_document_of_any_size_comes_back(store: ResourceStore) -> None:
    """Also one that shrinks: it leaves nothing behind."""
    etag = None
    for size in (32 * 1024, 70_000, 400_000, 1):
        etag = store.put(TABLE, "orders", "large", {"text": "x" * size}, etag).etag

        got = store.get(TABLE, "orders", "large")
        assert got is not None
        assert got.document == {"text": "x" * size}


def test_a_document_that_no_row_can_hold_is_invalid(store: ResourceStore) -> None:
    store.put(TABLE, "orders", "other", DOCUMENT, None)

    with pytest.raises(InvalidDocument):
        store.put(TABLE, "orders", "huge", {"text": "x" * 500_000}, None)

    assert store.get(TABLE, "orders", "huge") is None


def test_only_the_etag_of_what_is_stored_replaces_it(store: ResourceStore) -> None:
    first = store.put(TABLE, "orders", "new", DOCUMENT, None)
    second = store.put(TABLE, "orders", "new", DOCUMENT, first.etag)

    for etag in (None, first.etag):
        with pytest.raises(Conflict):
            store.put(TABLE, "orders", "NEW", {"other": 1}, etag)

    assert first.etag != second.etag
    assert store.get(TABLE, "orders", "new") == second


def test_a_document_that_is_there_already_is_stored(store: ResourceStore) -> None:
    first = store.put(TABLE, "orders", "new", {"version": 1}, None)
    second = store.put(TABLE, "orders", "new", {"version": 2}, first.etag)

    again = store.put(TABLE, "orders", "new", {"version": 2}, first.etag)

    assert again == second
    assert store.put(TABLE, "orders", "new", {"version": 3}, again.etag).etag != again.etag


def test_what_is_gone_can_be_created_but_not_replaced(store: ResourceStore) -> None:
    first = store.put(TABLE, "orders", "new", DOCUMENT, None)
    deleted = [store.delete(TABLE, "orders", "new") for _ in range(2)]

    with pytest.raises(Conflict):
        store.put(TABLE, "orders", "new", DOCUMENT, first.etag)

    assert (deleted, store.get(TABLE, "orders", "new")) == ([True, False], None)
    assert store.put(TABLE, "orders", "new", DOCUMENT, None).etag != first.etag


def test_only_the_document_that_is_meant_is_deleted(store: ResourceStore) -> None:
    first = store.put(TABLE, "orders", "new", DOCUMENT, None)
    second = store.put(TABLE, "orders", "new", {"version": 2}, first.etag)

    assert not store.delete(TABLE, "orders", "new", first.etag)
    assert store.get(TABLE, "orders", "new") == second
    assert store.delete(TABLE, "orders", "new", second.etag)
    assert not store.delete(TABLE, "orders", "new", second.etag)


def test_a_list_has_one_partition_by_name(store: ResourceStore) -> None:
    for name in ("b", "C", "a-1", "a1"):
        store.put(TABLE, "orders", name, {"name": name}, None)
    store.put(TABLE, "invoices", "d", {"name": "d"}, None)
    store.put(TABLE, "o'rders", "e", {"name": "e"}, None)

    names = [each.document["name"] for each in store.list(TABLE, "ORDERS")]

    assert names == ["a-1", "a1", "b", "C"]
    assert len(store.list(TABLE, "o'rders")) == 1


@pytest.mark.parametrize("name", ["a/b", "a\\b", "a#b", "a?b", "a\0b"])
def test_what_cannot_be_a_key_is_not_there(store: ResourceStore, name: str) -> None:
    store.put(TABLE, "orders", "new", DOCUMENT, None)

    assert [store.get(TABLE, name, "new"), store.get(TABLE, "orders", name)] == [None, None]
    assert list(store.list(TABLE, name)) == []
    assert not store.delete(TABLE, "orders", name)
    with pytest.raises(ValueError, match="can't be keys"):
        store.put(TABLE, "orders", name, DOCUMENT, None)


@pytest.mark.parametrize("name", ["a b", "a%2fb", "a'b''", "ü", "a:b|c&d=e+f", "x" * 500])
def test_any_other_name_is_a_key(store: ResourceStore, name: str) -> None:
    put = store.put(TABLE, name, name, DOCUMENT, None)

    assert store.get(TABLE, name, name) == put
    assert len(store.list(TABLE, name)) == 1
    assert store.delete(TABLE, name, name)


def test_a_change_to_the_callers_copy_is_not_stored(store: ResourceStore) -> None:
    document = {"list": [1]}
    store.put(TABLE, "orders", "new", document, None)
    document["list"].append(2)

    got = store.get(TABLE, "orders", "new")

    assert got is not None
    assert got.document == {"list": [1]}
