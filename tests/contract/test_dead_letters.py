"""DeadLetterStore: blobs for the subscriber's eyes, in memory and on Azurite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from shared.adapters.storage.account import POISON, StorageAccount
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


@pytest.fixture
def subject(account: StorageAccount | None) -> Subject:
    if account is None:
        memory = MemoryDeadLetters()
        memory.missing.update({MISSING, "Bad_Name", "x"})
        return Subject(
            memory,
            "dead",
            lambda name, path: memory.blobs[name, path],
            lambda path: memory.poison[path],
        )
    container = account.container("dead")
    container.create_container()
    return Subject(
        StorageDeadLetters(account),
        container.container_name,
        lambda name, path: account.foreign_container(name).download_blob(path).readall(),
        lambda path: account.container(POISON).download_blob(path).readall(),
    )


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


def test_it_is_known_what_is_there(subject: Subject) -> None:
    before = subject.store.has(subject.container, PATH)
    subject.write()

    assert (before, subject.store.has(subject.container, PATH)) == (False, True)
    assert not subject.store.has(MISSING, PATH)


def test_writing_the_same_again_is_no_error(subject: Subject) -> None:
    assert [subject.write(), subject.write()] == [True, True]


def test_poison_is_stored_without_a_container(subject: Subject) -> None:
    subject.store.write_poison("deliveries/1.json", b"{}")
    subject.store.write_poison("deliveries/2.json", b"[]")

    assert subject.poison("deliveries/1.json") == b"{}"
    assert subject.poison("deliveries/2.json") == b"[]"
