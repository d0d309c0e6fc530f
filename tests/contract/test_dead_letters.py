"""DeadLetterStore and DeadLetterReader: in memory, in SQLite and on two Azurites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import UUID

import pytest
from azure.storage.blob import ContentSettings

from pushgrid.testing.memory import MemoryDeadLetters
from shared.adapters.azure_storage.blobs import StorageDeadLetters
from shared.adapters.azure_storage.clients import POISON, StorageClients
from shared.adapters.sql.dead_letters import SqlDeadLetters
from shared.adapters.sql.store import SqlStore
from shared.deadletter.blob_summary import BlobSummary
from shared.deadletter.reader import UnreadableBlob
from shared.engine.ports import DeadLetterReader, DeadLetterStore, NoContainer, Store
from shared.errors import StorageUnavailable
from shared.events.notices import WrittenBlob
from shared.subscriptions.subscription import DeadLetterDestination

PATH = "orders/new/2026/2/9/12/8a5f9e5c.json"
IN_SQL = ("sqlite", "postgresql")
MISSING = "no-such-container"
on_storage = pytest.mark.parametrize("kind", ["azurite", "identity"])


class DeadLetterContainers(DeadLetterStore, DeadLetterReader, Protocol):
    """Both ports."""


@dataclass(frozen=True)
class Subject:
    """An implementation, a container it may write to, and what is stored."""

    store: DeadLetterContainers
    destination: DeadLetterDestination
    elsewhere: DeadLetterDestination  # the container of that name in another account
    stored: Callable[[DeadLetterDestination, str], bytes]
    poison: Callable[[str], bytes]

    def write(self, body: bytes = b"[{}]") -> WrittenBlob | None:
        return self.store.write(self.destination, PATH, body)


@pytest.fixture(params=["own", "other"])
def subject(
    request: pytest.FixtureRequest,
    account: StorageClients | None,
    other_account: StorageClients | None,
    stored: Store,
) -> Subject:
    """Give a destination in the app's own account, or in another that the operator names."""
    is_own = request.param == "own"
    if account is None or other_account is None:
        memory = MemoryDeadLetters()
        memory.missing.update({MISSING, "Bad_Name", "x"})
        own = DeadLetterDestination(container="dead", account="")
        places = own, replace(own, account="archive1")
        places = places if is_own else places[::-1]
        if isinstance(stored, SqlStore):
            stored.dead_letters._others = memory
            return _in_sql(stored.dead_letters, *places)
        return Subject(
            memory,
            *places,
            lambda there, path: memory.blobs[there.container, path],
            lambda path: memory.poison[path],
        )
    holder, other = (account, other_account) if is_own else (other_account, account)
    container = holder.container("dead")
    container.create_container()
    other.foreign_container(container.container_name).create_container()
    own = DeadLetterDestination(container=container.container_name, account="")
    places = own, replace(own, account=other_account.account_name)
    return Subject(
        StorageDeadLetters(account, {other_account.account_name: other_account}),
        *(places if is_own else places[::-1]),
        lambda there, path: holder.foreign_container(there.container).download_blob(path).readall(),
        lambda path: account.container(POISON).download_blob(path).readall(),
    )


def _in_sql(
    sql: SqlDeadLetters, destination: DeadLetterDestination, elsewhere: DeadLetterDestination
) -> Subject:
    """Give the blobs in an SQL database; those of other accounts are in memory."""

    def read(container: str, path: str, account: str = "") -> bytes:
        there = DeadLetterDestination(container=container, account=account)
        return sql.read(there, path, 1000) or b""

    return Subject(
        sql,
        destination,
        elsewhere,
        lambda there, path: read(there.container, path, there.account),
        lambda path: read("poison", path),
    )


def test_a_dead_letter_is_stored_as_it_is(subject: Subject) -> None:
    assert subject.write(b'[{"id":"\xc3\xbc"}]')
    assert subject.stored(subject.destination, PATH) == b'[{"id":"\xc3\xbc"}]'


@pytest.mark.parametrize("container", [MISSING, "Bad_Name", "x"])
def test_a_missing_container_is_said(subject: Subject, container: str, kind: str) -> None:
    if kind in IN_SQL and not subject.destination.account:
        pytest.skip("the store's own containers exist once they are named")
    missing = replace(subject.destination, container=container)

    assert not subject.store.write(missing, PATH, b"[]")
    assert not subject.store.find(missing, PATH)
    assert subject.store.read(missing, PATH, 4) is None
    with pytest.raises(NoContainer, match=f"There is no container '{container}'"):
        subject.store.list(missing, "a/")


def test_another_blob_is_not_overwritten(subject: Subject) -> None:
    subject.write(b"first")

    with pytest.raises(StorageUnavailable):
        subject.write(b"second")

    assert subject.stored(subject.destination, PATH) == b"first"


def test_a_container_of_that_name_in_another_account_has_its_own_blobs(subject: Subject) -> None:
    subject.write()

    assert subject.store.find(subject.elsewhere, PATH) is None
    assert subject.store.read(subject.elsewhere, PATH, 4) is None
    assert subject.store.list(subject.elsewhere, "orders/new/2026/2/9/12/") == ([], [])


def test_it_is_known_what_is_there(subject: Subject) -> None:
    before = subject.store.find(subject.destination, PATH)
    written = subject.write()

    found = subject.store.find(subject.destination, PATH)
    assert before is None
    assert found is not None
    assert written is not None
    assert found == written._replace(request_id="", client_request_id="")


def test_what_was_written_is_described(subject: Subject) -> None:
    written, again = subject.write(b"[{}]"), subject.write(b"[{}]")

    assert written is not None
    assert again == written._replace(request_id="", client_request_id="")
    container = subject.destination.container
    assert (written.container, written.path, written.size) == (container, PATH, 4)
    assert written.content_type == "application/json"
    assert written.url.endswith(f"/{container}/{PATH}")
    assert written.etag.strip('"').startswith("0x")
    assert written.request_id != written.client_request_id
    assert all(map(UUID, (written.request_id, written.client_request_id)))


def test_a_folder_lists_what_is_directly_in_it(subject: Subject) -> None:
    here = subject.destination
    for path in ("a/2026/1.json", "a/2026/2/3.json", "a/2026/2/4.json", "a/2027.json", "ab/1.json"):
        subject.store.write(here, path, b"[1]")
    reader: DeadLetterReader = subject.store

    root, year = reader.list(here, "a/"), reader.list(here, "a/2026/")

    assert root
    assert year
    assert [*root.folders] == ["2026"]
    assert [each.path for each in root.blobs] == ["a/2027.json"]
    assert [*year.folders] == ["2"]
    assert [(each.path, each.size) for each in year.blobs] == [("a/2026/1.json", 3)]
    assert year.blobs[0].written_at.tzinfo
    assert reader.list(here, "b/") == ([], [])


def test_a_list_has_the_summaries_that_blobs_were_written_with(subject: Subject) -> None:
    summary = BlobSummary(
        "/subscriptions/s/resourceGroups/grün (1)/topics/orders",
        {"TimeToLiveExceeded": 2, "Maximum delivery attempts was exceeded.": 1},
        "Größe.Changed /a b;c",
    )
    for name, each in {"a": summary, "b": None, "c": summary._replace(topic_id="")}.items():
        assert subject.store.write(subject.destination, f"a/{name}.json", b"[]", each)
        assert subject.store.write(subject.destination, f"a/{name}.json", b"[]", each)

    found = subject.store.list(subject.destination, "a/").blobs

    assert {each.path: each.summary for each in found} == {
        "a/a.json": summary,
        "a/b.json": None,
        "a/c.json": summary._replace(topic_id=""),
    }


def test_a_blob_is_read_up_to_a_limit(subject: Subject) -> None:
    subject.write(b"0123456789")

    assert subject.store.read(subject.destination, PATH, 100) == b"0123456789"
    assert subject.store.read(subject.destination, PATH, 4) == b"0123"
    assert subject.store.read(subject.destination, "orders/none.json", 4) is None


@on_storage
def test_a_compressed_blob_is_not_read(account: StorageClients) -> None:
    """It could become far larger than its size."""
    container = account.container("dead")
    container.create_container()
    settings = ContentSettings("application/json", content_encoding="gzip")
    container.upload_blob(PATH, b"not decompressed", content_settings=settings)
    here = DeadLetterDestination(container=container.container_name)

    with pytest.raises(UnreadableBlob, match="content encoding 'gzip'"):
        StorageDeadLetters(account).read(here, PATH, 100)


def test_an_empty_blob_is_empty(subject: Subject) -> None:
    subject.write(b"")

    assert subject.store.read(subject.destination, PATH, 4) == b""


def test_poison_is_stored_without_a_container(subject: Subject) -> None:
    subject.store.write_poison("deliveries/1.json", b"{}")
    subject.store.write_poison("deliveries/2.json", b"[]")

    assert subject.poison("deliveries/1.json") == b"{}"
    assert subject.poison("deliveries/2.json") == b"[]"


@on_storage
def test_the_app_s_own_account_may_be_named(account: StorageClients) -> None:
    container = account.container("dead")
    container.create_container()
    named = DeadLetterDestination(container=container.container_name, account=account.account_name)

    assert StorageDeadLetters(account).write(named, PATH, b"[]")


@pytest.mark.parametrize("kind", IN_SQL)
def test_a_container_of_the_store_exists_once_it_is_named(stored: Store) -> None:
    here = DeadLetterDestination(container="new-one")

    assert stored.dead_letters.list(here, "a/") == ([], [])
    assert stored.dead_letters.write(here, PATH, b"[]")


@on_storage
def test_an_account_that_the_operator_does_not_name_is_away(account: StorageClients) -> None:
    """It was named when the subscription was written: its dead letters wait."""
    gone = DeadLetterDestination(container="dead", account="archive9")

    with pytest.raises(StorageUnavailable, match="does not name the storage account 'archive9'"):
        StorageDeadLetters(account).write(gone, PATH, b"[]")
    with pytest.raises(StorageUnavailable, match="'archive9'"):
        StorageDeadLetters(account).list(gone, "a/")
