"""
A program that uses a store until it is killed, and tells what it was told.

Arguments: a folder, and a name for its events. Lines: ``ready``, ``refused``, and what was
answered, is about to end, or has ended, with its text.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from shared.adapters.sql.sqlite.store import SqliteStore
from shared.adapters.threads import SystemThreads
from shared.clock import SystemClock
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable

PUBLISHERS = 4
SIZE = 2000  # of an event


def say(*words: object) -> None:
    print(*words, flush=True)


async def publish(store: SqliteStore, name: str) -> None:
    number = 0
    while True:
        number += 1
        text = f"{name}-{number} ".ljust(SIZE, "x")
        try:
            await store.sender.put(Queue.DELIVERIES, text)
        except StorageUnavailable:
            say("refused")
            await asyncio.sleep(0.01)
        else:
            say("answered", text.split()[0])


async def deliver(store: SqliteStore) -> None:
    """End every other message; the others stay in hand."""
    while True:
        with suppress(StorageUnavailable):
            for number, lease in enumerate(await store.leases.claim(Queue.DELIVERIES, 100)):
                if number % 2 == 0:
                    text = lease.body.decode().split()[0]
                    say("ending", text)
                    await store.leases.end(lease)
                    say("ended", text)


async def main(folder: Path, name: str, low_water: int = 0) -> None:
    store = SqliteStore(folder, clock=SystemClock(), threads=SystemThreads(), low_water=low_water)
    say("ready")
    publishers = [publish(store, f"{name}.{number}") for number in range(PUBLISHERS)]
    await asyncio.gather(deliver(store), *publishers)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
