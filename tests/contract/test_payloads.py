"""PayloadStore: large events beside the queue, in memory and on Azurite."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.adapters.azure_storage import blobs
from shared.adapters.azure_storage.blobs import StoragePayloads
from shared.adapters.azure_storage.clients import PAYLOADS, StorageClients
from shared.adapters.threads import SystemThreads
from shared.clock import Deadline
from shared.engine.ports import PayloadStore, Store
from shared.errors import StorageUnavailable
from tests.builders import NEVER

HOUR = timedelta(hours=1)
LATER = START + timedelta(days=9)
on_storage = pytest.mark.parametrize("kind", ["azurite", "identity"])


class Subject(NamedTuple):
    """An implementation, and its clock."""

    store: PayloadStore
    clock: FakeClock

    def expire(self, now: datetime) -> int:
        return self.store.delete_expired(now, Deadline(timedelta(hours=1), self.clock.monotonic))


@pytest.fixture
def subject(account: StorageClients | None, stored: Store, clock: FakeClock) -> Subject:
    """Give a store without its container."""
    if account is None:
        return Subject(stored.payloads, clock)
    # Without a memory of what was read: a test wants to see what is stored.
    return Subject(StoragePayloads(account, SystemThreads(), remembered_bytes=0), clock)


@pytest.mark.parametrize(
    "texts", [['{"a":"\\n"}', "", '"ü \u2028 \r"', "x" * 100_000], [""], ["", ""]], ids=len
)
def test_texts_come_back_in_order(subject: Subject, texts: list[str]) -> None:
    name = subject.store.write("publish-1", LATER, texts)

    assert list(subject.store.read(name) or ()) == texts


@pytest.mark.parametrize("texts", [[], ["a\nb"]])
def test_what_cannot_be_lines_is_refused(subject: Subject, texts: list[str]) -> None:
    with pytest.raises(ValueError, match="one line"):
        subject.store.write("publish-1", LATER, texts)


def test_the_same_publish_may_write_twice(subject: Subject) -> None:
    names = [subject.store.write("publish-1", LATER, [text]) for text in ("a", "b")]

    assert [list(subject.store.read(name) or ()) for name in names] == [["a"], ["b"]]


def test_a_missing_blob_is_none(subject: Subject) -> None:
    without_container = subject.store.read("2026020912/publish-1-0")
    subject.store.write("publish-1", LATER, ["a"])

    assert (without_container, subject.store.read("2026020912/publish-1-0")) == (None, None)


def test_a_payload_is_deleted_after_its_hour(subject: Subject) -> None:
    nothing = subject.expire(LATER)
    name = subject.store.write("publish-1", LATER, ["a"])

    assert (nothing, subject.expire(LATER), subject.store.read(name)) == (0, 0, ("a",))
    assert (subject.expire(LATER + HOUR), subject.store.read(name)) == (1, None)


def test_only_expired_payloads_are_deleted(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "_BATCH", 7)
    expired = [
        subject.store.write(f"p-{hours}", START + hours * HOUR, ["a"]) for hours in range(-30, 0)
    ]
    kept = [subject.store.write(f"p-{hours}", START + hours * HOUR, ["a"]) for hours in range(3)]

    deleted = subject.expire(START)

    assert deleted == len(expired)
    assert [subject.store.read(name) for name in expired] == [None] * len(expired)
    assert [subject.store.read(name) for name in kept] == [("a",)] * len(kept)


def test_nothing_is_deleted_after_the_deadline(subject: Subject) -> None:
    name = subject.store.write("publish-1", START, ["a"])

    deleted = subject.store.delete_expired(LATER, Deadline(timedelta(), subject.clock.monotonic))

    assert (deleted, subject.store.read(name)) == (0, ("a",))


@on_storage
def test_deleting_ends_at_the_deadline(
    account: StorageClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "_BATCH", 7)
    store = StoragePayloads(account, SystemThreads())
    for number in range(20):
        store.write(f"p-{number:02}", START, ["a"])

    looks = iter([0.0, 1.0, 2.0, 3.0])  # an hour passes whenever somebody looks
    first = store.delete_expired(LATER, Deadline(timedelta(seconds=2.5), looks.__next__))

    assert (first, store.delete_expired(LATER, NEVER)) == (14, 6)


@on_storage
def test_a_blob_that_cannot_be_deleted_keeps_no_other(
    account: StorageClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listings have the oldest first: it kept all others for ever."""
    monkeypatch.setattr(blobs, "_BATCH", 2)
    store = StoragePayloads(account, SystemThreads())
    names = [store.write(f"p-{number}", START, ["a"]) for number in range(6)]
    leased = account.container(PAYLOADS).get_blob_client(names[0])
    lease = leased.acquire_lease()

    with pytest.raises(StorageUnavailable):
        store.delete_expired(LATER, NEVER)

    left = list(account.container(PAYLOADS).list_blob_names())
    lease.break_lease(0)
    assert (left, store.delete_expired(LATER, NEVER)) == (names[:1], 1)


@on_storage
def test_blobs_that_are_not_ours_are_left_alone(account: StorageClients) -> None:
    store = StoragePayloads(account, SystemThreads())
    store.write("publish-1", START, ["a"])
    for name in ("!", "readme.txt"):
        account.container(PAYLOADS).upload_blob(name, b"")

    deleted = store.delete_expired(LATER, NEVER)

    left = account.container(PAYLOADS).list_blob_names()
    assert (deleted, list(left)) == (1, ["!", "readme.txt"])


@on_storage
def test_what_was_read_is_remembered_within_limits(account: StorageClients) -> None:
    store = StoragePayloads(account, SystemThreads(), remembered_bytes=25)
    names = [store.write(f"p-{text}", LATER, [text * 10]) for text in "abc"]
    for number in (0, 1, 0, 2):  # the second is what was used longest ago
        store.read(names[number])
    for name in names:
        account.container(PAYLOADS).delete_blob(name)

    remembered = [store.read(name) for name in names]

    assert remembered == [("a" * 10,), None, ("c" * 10,)]
    account.container(PAYLOADS).upload_blob(names[1], b"again")
    assert store.read(names[1]) == ("again",)  # that it was missing is not remembered
