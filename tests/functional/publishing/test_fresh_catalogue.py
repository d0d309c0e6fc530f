"""What was answered before a request came is known when it is matched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from shared.engine.caching.fresh_catalogue import FreshCatalogue
from shared.errors import StorageUnavailable
from shared.tasks import Tasks

T = TypeVar("T")


class Versions:
    """A version that is read while *go_on* is set, and what was forgotten by it."""

    def __init__(self) -> None:
        self.version, self.reads, self.forgotten = 1, 0, 0
        self.fails = False
        self.go_on = asyncio.Event()
        self.go_on.set()

    def read(self) -> int:
        if self.fails:
            raise StorageUnavailable
        return self.version

    def forget(self) -> None:
        self.forgotten += 1

    async def off_loop(self, call: Callable[[], T], /) -> T:
        self.reads += 1
        found = call()
        await self.go_on.wait()
        return found


def of(versions: Versions) -> FreshCatalogue:
    return FreshCatalogue(versions.read, versions.forget, versions.off_loop, Tasks())


def test_only_another_version_makes_it_forget() -> None:
    async def play() -> None:
        versions = Versions()
        fresh = of(versions)
        for version in (1, 1, 2, 2):
            versions.version = version
            await fresh.ready()
        assert (versions.reads, versions.forgotten) == (4, 2)

    asyncio.run(play())


def test_who_comes_while_one_reads_shares_the_next_reading() -> None:
    """That under way may have read before a change was answered."""

    async def play() -> None:
        versions = Versions()
        fresh = of(versions)
        versions.go_on.clear()
        first = asyncio.create_task(fresh.ready())
        for _ in range(5):
            await asyncio.sleep(0)
        assert versions.reads == 1
        versions.version = 2
        others = [asyncio.create_task(fresh.ready()) for _ in range(5)]
        await asyncio.sleep(0)
        versions.go_on.set()
        await asyncio.gather(first, *others)
        assert (versions.reads, versions.forgotten) == (2, 2)

    asyncio.run(play())


def test_a_reading_that_fails_is_told_and_the_next_one_reads_again() -> None:
    async def play() -> None:
        versions = Versions()
        fresh = of(versions)
        versions.fails = True
        with pytest.raises(StorageUnavailable):
            await fresh.ready()
        versions.fails = False
        await fresh.ready()
        assert versions.forgotten == 1

    asyncio.run(play())
