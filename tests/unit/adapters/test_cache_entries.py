"""Entries: who reads, what the others get meanwhile, and what is dropped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from shared.adapters import cache_entries
from shared.adapters.cache_entries import Entries
from shared.errors import StorageUnavailable
from tests.fakes import FakeClock


class HeldRead:
    """A read that says when it has begun, and ends when it may."""

    def __init__(self, result: str | Exception) -> None:
        self.times = 0
        self.begun = Event()
        self.may_end = Event()
        self._result = result

    def __call__(self) -> str:
        self.times += 1
        self.begun.set()
        assert self.may_end.wait(10)
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


@pytest.fixture
def entries() -> Entries[str]:
    return Entries(FakeClock().monotonic, lambda _: 5.0)


def test_others_are_served_the_old_value_while_one_reads() -> None:
    entries: Entries[str] = Entries(FakeClock().monotonic, lambda _: 0.0)  # due at once
    entries.get("a", lambda: "old")
    read = HeldRead("new")

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(entries.get, "a", read)
        assert read.begun.wait(10)
        others = [entries.get("a", read) for _ in range(3)]
        read.may_end.set()

    assert (others, reader.result()) == (["old"] * 3, "new")
    assert read.times == 1


@pytest.mark.parametrize("result", ["new", StorageUnavailable(), KeyError("a bug")], ids=repr)
def test_with_no_old_value_others_wait_for_the_one_who_reads(
    entries: Entries[str], result: str | Exception
) -> None:
    read = HeldRead(result)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(entries.get, "a", read) for _ in range(4)]
        assert read.begun.wait(10)
        read.may_end.set()
        got = [each.exception(10) or each.result() for each in waiting]

    assert got == [result] * 4
    # Whoever came after the end of a failed read has read again.
    assert read.times == 1 or result != "new"


def test_a_read_that_began_before_a_change_is_not_kept(entries: Entries[str]) -> None:
    read = HeldRead("old")

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(entries.get, "a", read)
        assert read.begun.wait(10)
        entries.forget("a")
        read.may_end.set()

    assert reader.result() == "old"
    assert entries.get("a", lambda: "new") == "new"


def test_what_was_used_longest_ago_is_dropped_first(
    entries: Entries[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_entries, "MAX_ENTRIES", 2)
    for key in ("a", "b", "a", "c"):
        entries.get(key, lambda: "old")

    assert [entries.get(key, lambda: "new") for key in ("a", "b")] == ["old", "new"]
