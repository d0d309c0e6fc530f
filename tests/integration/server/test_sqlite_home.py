"""The home in a folder: what it does by itself, on a database of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from pushgrid.testing.memory import FakeClock
from server.environment import read_server_settings
from server.sqlite_home import DEAD_LETTERS_KEPT_FOR, SqliteHome
from shared.adapters.threads import SystemThreads
from shared.subscriptions.subscription import DeadLetterDestination
from shared.watched_clock import WatchedClock

DEAD = DeadLetterDestination(container="dead")


@asynccontextmanager
async def opened(folder: Path, time: FakeClock) -> AsyncIterator[SqliteHome]:
    threads = SystemThreads()
    threads.attach()
    clock = WatchedClock(time.now, time.monotonic)
    home = SqliteHome(folder, read_server_settings({"PUSHGRID_ADMIN_KEY": "k"}), clock, threads)
    await home.open()
    try:
        yield home
    finally:
        await home.close()


def do_all(home: SqliteHome) -> None:
    for each in home.background:
        assert not each.call(), "it goes on"


@pytest.mark.parametrize("has_jumped", [False, True], ids=["settled", "a clock that has jumped"])
def test_dead_letters_go_after_their_time(tmp_path: Path, has_jumped: bool) -> None:  # noqa: FBT001
    """By a clock that is known to be right alone: else a wrong one would delete all."""
    time = FakeClock()
    pass_time: Callable[[timedelta], None] = time.jump if has_jumped else time.advance

    async def test() -> list[str]:
        async with opened(tmp_path / "data", time) as home:
            dead = home.store.dead_letters
            await asyncio.to_thread(dead.write, DEAD, "a/old.json", b"[]")
            await asyncio.to_thread(dead.write_poison, "a/poison.json", b"{}")
            pass_time(DEAD_LETTERS_KEPT_FOR)
            await asyncio.to_thread(dead.write, DEAD, "a/new.json", b"[]")
            pass_time(timedelta(hours=1))
            await asyncio.to_thread(do_all, home)
            poison = DeadLetterDestination(container="poison")
            return [each.path for place in (DEAD, poison) for each in dead.list(place, "a/").blobs]

    left = ["a/new.json", "a/old.json", "a/poison.json"] if has_jumped else ["a/new.json"]
    assert asyncio.run(test()) == left
