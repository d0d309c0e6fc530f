"""Every event that was answered is on the disk at each moment, wherever it stands by then, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.adapters.sql.database import ReadTransaction
from shared.adapters.sql.messages import open_keys, open_text, parts_of
from shared.adapters.sql.sqlite.connection import SqliteConnection
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.adapters.threads import SystemThreads
from shared.engine.ports.settling import FollowUp, Settlement
from tests.builders import a_note
from tests.integration.sql.databases import names, opened
from tests.integration.sql.recorded_disk import WAL, RecordedDisk, restored
from tests.integration.sql.test_leases import MOST, NEW, run
from tests.integration.sql.test_settling import HOUR, InHand, again, of_publish, text_of

EVENTS = 2  # of a publish request
PUBLISHED = 16

Event = tuple[str, int]


class Image(NamedTuple):
    """What a power failure leaves, what must be in it, and what must not."""

    files: dict[str, bytes]
    wanted: set[Event]
    unwanted: set[Event]
    payloads: set[str]


@dataclass
class Story:
    """What was answered so far; images are taken before each sync."""

    disk: RecordedDisk
    wanted: set[Event] = field(default_factory=set)
    unwanted: set[Event] = field(default_factory=set)
    payloads: set[str] = field(default_factory=set)
    images: list[Image] = field(default_factory=list)
    chance: Random = field(default_factory=lambda: Random(7))

    def look(self, file: str) -> None:
        told = self.wanted.copy(), self.unwanted.copy(), self.payloads.copy()
        for torn in (0, 24, 1500, 9000) if file == WAL else (0, 5000):
            self.images.append(Image(self.disk.after_power_failure(torn=torn), *told))
        self.images.append(Image(self.disk.after_power_failure(chance=self.chance), *told))

    async def tell(self, store: SqliteStore) -> None:
        """Publish, and settle in each way; some of it stays in hand."""
        for number in range(PUBLISHED):
            events = {(f"p-{number}", place) for place in range(EVENTS)}
            payload = None
            if number % 5 == 0:
                payload = await asyncio.to_thread(
                    store.payloads.write, f"p-{number}", START + 24 * HOUR, ["x" * 9000] * EVENTS
                )
            await store.sender.put(NEW, text_of([of_publish(number, payload=payload)]))
            self.wanted |= events
            self.payloads |= {payload} if payload else set()
            (lease,) = await store.leases.claim(NEW, MOST)
            (part,) = parts_of(lease.body)
            if number % 4 == 0:
                self.wanted -= events  # from here on they may be there or not
                self.payloads.discard(payload or "")
                await InHand(store, lease).settle(Settlement(part=part))
                self.unwanted |= events
            elif number % 4 == 1:
                await InHand(store, lease).settle(Settlement(part=part, follow_ups=[again(part)]))
            elif number % 4 == 2:
                dead = FollowUp(replace(part, dead_letter=a_note()), blob_due_at=START + HOUR)
                await InHand(store, lease).settle(Settlement(part=part, follow_ups=[dead]))


@pytest.fixture
def disk() -> Iterator[RecordedDisk]:
    disk = RecordedDisk("recorded")
    yield disk
    disk.unregister()


def played(folder: Path, disk: RecordedDisk) -> Story:
    async def play() -> None:
        store = SqliteStore(
            folder, clock=FakeClock(), threads=SystemThreads(), connect=disk.connect
        )
        disk.before_sync = story.look
        await story.tell(store)
        disk.before_sync = lambda _: None
        await store.leases.close()
        store.close()

    story = Story(disk)
    run(play())
    return story


def stored(reading: ReadTransaction) -> Counter[Event]:
    """Return the events of all messages."""
    return Counter(
        (each.origin.publish_id, each.position)
        for number, body in reading.rows("SELECT id, body FROM messages")
        for part in parts_of(open_text(body.decode(), open_keys(reading, number)))
        for each in part.deliveries
    )


def losses(folder: Path, images: list[Image]) -> list[int]:
    """Return the numbers of the images that lack something, or have it twice or again."""
    found = []
    for number, image in enumerate(images):
        with opened(restored(folder / f"image{number}", image.files)) as database:
            events, payloads = database.read(stored), names(database)
        is_whole = image.wanted <= events.keys() and image.payloads <= payloads
        if not is_whole or image.unwanted & events.keys() or max(events.values(), default=1) > 1:
            found.append(number)
    return found


def test_every_answered_event_is_in_the_image_of_each_sync(
    tmp_path: Path, disk: RecordedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the WAL is written back, too. What was not synced is missing, torn, or in no order."""
    monkeypatch.setattr("shared.adapters.sql.sqlite.connection._CHECKPOINT_PAGES", 12)
    story = played(tmp_path / "data", disk)

    assert len(story.images) > 150
    assert losses(tmp_path, story.images) == []


def test_a_commit_that_is_answered_before_its_sync_is_seen(
    tmp_path: Path, disk: RecordedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: a database that syncs only checkpoints loses what it answered."""
    prepare = SqliteConnection._prepare

    def careless(connection: SqliteConnection) -> None:
        prepare(connection)
        connection.run("PRAGMA synchronous = NORMAL")

    monkeypatch.setattr(SqliteConnection, "_prepare", careless)
    monkeypatch.setattr("shared.adapters.sql.sqlite.connection._CHECKPOINT_PAGES", 12)
    story = played(tmp_path / "data", disk)
    monkeypatch.undo()

    assert losses(tmp_path, story.images)
