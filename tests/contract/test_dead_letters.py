"""DeadLetterStore: blobs for the subscriber's eyes, in memory and on Azurite."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from shared.adapters.storage.account import POISON
from shared.adapters.storage.blobs import StorageDeadLetters
from shared.engine.ports import DeadLetterStore
from shared.errors import StorageUnavailable
from tests.fakes import MemoryDeadLetters

PATH = "orders/new/2026/2/9/12/8a5f9e5c.json"
MISSING = "no-such-container"


@dataclass(frozen=True)
class Subject:
    """An implementation, a container it may write to, and what is stored."""

    store: DeadLetterStore
    container: str
    stored: Callable[[str, str], bytes]
    poison: Callable[[str], bytes]

    def write(self, body: bytes = b"[{}]") -> bool:
        return self.store.write(self.container, PATH, body)


@pytest.fixture(params=["memory", "azurite", "identity"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    container = f"c{uuid.uuid4().hex}"
    if request.param == "memory":
        memory = MemoryDeadLetters()
        memory.missing.update({MISSING, "Bad_Name", "x"})
        yield Subject(
            memory,
            container,
            lambda name, path: memory.blobs[name, path],
            lambda path: memory.poison[path],
        )
        return
    account = request.getfixturevalue("account_on")(request.param)
    client = account.foreign_container(container)
    client.create_container()
    yield Subject(
        StorageDeadLetters(account),
        container,
        lambda name, path: account.foreign_container(name).download_blob(path).readall(),
        lambda path: account.container(POISON).download_blob(path).readall(),
    )
    client.delete_container()


def test_a_dead_letter_is_stored_as_it_is(subject: Subject) -> None:
    assert subject.write(b'[{"id":"\xc3\xbc"}]')
    assert subject.stored(subject.container, PATH) == b'[{"id":"\xc3\xbc"}]'


@pytest.mark.parametrize("container", [MISSING, "Bad_Name", "x"])
def test_a_missing_container_is_said(subject: Subject, container: str) -> None:
    assert not subject.store.write(container, PATH, b"[]")


def test_another_blob_is_not_overwritten(subject: Subject) -> None:
    subject.write(b"first")

    with pytest.raises(StorageUnavailable):
        subject.write(b"second")

    assert subject.stored(subject.container, PATH) == b"first"


def test_writing_the_same_again_is_no_error(subject: Subject) -> None:
    assert [subject.write(), subject.write()] == [True, True]


def test_poison_is_stored_without_a_container(subject: Subject) -> None:
    subject.store.write_poison("deliveries/1.json", b"{}")
    subject.store.write_poison("deliveries/2.json", b"[]")

    assert subject.poison("deliveries/1.json") == b"{}"
    assert subject.poison("deliveries/2.json") == b"[]"
