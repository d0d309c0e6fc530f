"""What SQLite was given is there: after power failures and failed syncs, for all who were told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import apsw
import pytest

from shared.adapters.sql.database import StoreRefused, WriteOptions, WriteTransaction
from shared.adapters.sql.sqlite.connection import SqliteConnection
from shared.adapters.sql.sqlite.database import SqliteDatabase
from shared.errors import Conflict, StorageUnavailable
from tests.functional.deployment import Logged
from tests.integration.sql.databases import add, names, opened
from tests.integration.sql.recorded_disk import DATABASE, WAL, RecordedDisk, restored


@pytest.fixture
def disk() -> Iterator[RecordedDisk]:
    disk = RecordedDisk("recorded")
    yield disk
    disk.unregister()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


# ── Commits ──


def test_what_arrives_during_a_commit_is_committed_together(folder: Path) -> None:
    with opened(folder) as database:
        begun, go_on = Event(), Event()

        def slow(_: WriteTransaction) -> None:
            begun.set()
            go_on.wait(60)

        threads = [Thread(target=database.write, args=(slow,))]
        threads[0].start()
        begun.wait(60)
        before, _ = database.commit_time
        for number in range(10):
            write = partial(add, name=f"n{number}")
            threads.append(Thread(target=database.write, args=(write,)))
            threads[-1].start()
        waiting = database._writer._calls
        assert isinstance(waiting, SimpleQueue)
        while waiting.qsize() < 10:
            threads[-1].join(0.001)
        go_on.set()
        for thread in threads:
            thread.join()
        after, _ = database.commit_time

        assert after - before == 2
        assert names(database) == {f"n{number}" for number in range(10)}


def test_a_refused_write_is_undone_and_fails_nobody_else(folder: Path) -> None:
    """In one group, whatever it has written before it was refused."""

    def refused(writing: WriteTransaction, error: Exception) -> None:
        add(writing, f"of {error!r}")
        raise error

    def twice(writing: WriteTransaction) -> None:
        add(writing, "first")
        add(writing, "second")
        add(writing, "second")

    async def together(database: SqliteDatabase) -> list[Any]:
        writes: list[Any] = [
            partial(add, name="before"),
            partial(refused, error=Conflict()),
            twice,
            partial(refused, error=ValueError("ours")),
            partial(add, name="after"),
        ]
        calls = [database.write_on_loop(each) for each in writes]
        return await asyncio.gather(*calls, return_exceptions=True)

    with opened(folder) as database:
        results = asyncio.run(together(database))

        assert [type(each) for each in results] == [
            *(type(None), Conflict, StorageUnavailable, ValueError, type(None))
        ]
        assert names(database) == {"before", "after"}


def test_a_cancelled_caller_stops_nothing(folder: Path) -> None:
    async def cancelled(database: SqliteDatabase) -> object:
        ended = asyncio.get_running_loop().create_future()
        write = database.write_on_loop(partial(add, name="one"), then=ended.set_result)
        task = asyncio.create_task(write)
        await asyncio.sleep(0)
        task.cancel()
        return await ended

    with opened(folder) as database:
        asyncio.run(cancelled(database))

        assert names(database) == {"one"}


def test_nobody_is_answered_before_the_sync(folder: Path, disk: RecordedDisk) -> None:
    with opened(folder, connect=disk.connect) as database:
        answered: list[str] = []
        during: list[list[str]] = []
        disk.before_sync = lambda _: during.append([*answered])
        for name in ("one", "two"):
            database.write(partial(add, name=name))
            answered.append(name)
        disk.before_sync = lambda _: None

    assert during == [[], ["one"]]


def test_a_connection_that_has_failed_reads_no_more(folder: Path) -> None:
    """Its transaction may be open: nothing could be read by it."""
    faults = [apsw.IOError("the answer is lost")]

    class Failing(apsw.Connection):
        def execute(self, statements: str, *given: Any, **named: Any) -> apsw.Cursor:
            result = super().execute(statements, *given, **named)
            if statements == "BEGIN" and faults:
                raise faults.pop()
            return result

    def connect(database: Path) -> apsw.Connection:
        return Failing(str(database), apsw.SQLITE_OPEN_READWRITE)

    with opened(folder, connect=connect) as database:
        with pytest.raises(StorageUnavailable):
            names(database)
        assert names(database) == set()


# ── Power failures ──


def test_a_power_failure_at_any_sync_loses_nothing_that_was_answered(
    tmp_path: Path, folder: Path, disk: RecordedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it tear anything, also while the WAL is written back and the file shrinks."""
    monkeypatch.setattr("shared.adapters.sql.sqlite.connection._CHECKPOINT_PAGES", 12)
    monkeypatch.setattr("shared.adapters.sql.sqlite.connection._SPARE_PAGES", 4)
    answered: set[str] = set()
    deleted: set[str] = set()
    images: list[tuple[dict[str, bytes], set[str], set[str]]] = []

    def look(file: str) -> None:
        for torn in (0, 24, 1500, 9000) if file == WAL else (0, 5000):
            image = disk.after_power_failure(torn=torn)
            images.append((image, set(answered), set(deleted)))

    with opened(folder, connect=disk.connect) as database:
        disk.before_sync = look
        for number in range(12):
            name = f"n{number:02}"
            database.write(partial(add, name=name, size=9000))
            answered.add(name)
            if number % 3 == 2:
                gone = f"n{number - 1:02}"
                answered.discard(gone)  # from here on it may be there or not
                database.write(
                    lambda writing, gone=gone: writing.run(  # type: ignore[misc]
                        "DELETE FROM payloads WHERE name = ?", gone
                    )
                )
                deleted.add(gone)
        disk.before_sync = lambda _: None

    assert len(images) > 60
    for number, (image, wanted, unwanted) in enumerate(images):
        with opened(restored(tmp_path / f"image{number}", image)) as database:
            found = names(database)
        assert wanted <= found, number
        assert not unwanted & found, number


def test_after_a_failed_sync_the_next_answer_survives_a_power_failure(
    tmp_path: Path, folder: Path, disk: RecordedDisk
) -> None:
    with opened(folder, connect=disk.connect) as database:
        database.write(partial(add, name="before", size=9000))
        disk.fails = _once(WAL)
        with pytest.raises(StorageUnavailable):
            database.write(partial(add, name="failed", size=9000))
        database.write(partial(add, name="after"))

        image = disk.after_power_failure()
        assert database.dead == ""

    with opened(restored(tmp_path / "image", image)) as database:
        assert {"before", "after"} <= names(database)


@pytest.mark.parametrize("follows_the_rule", [True, False], ids=["rule", "control"])
def test_every_start_writes_back_what_a_failed_sync_has_left(
    tmp_path: Path,
    folder: Path,
    disk: RecordedDisk,
    monkeypatch: pytest.MonkeyPatch,
    follows_the_rule: bool,  # noqa: FBT001
) -> None:
    """
    The server was killed after a failed sync, starts, and answers; then the power fails.

    The control leaves out the checkpoint of the start: what it answered is lost.
    """
    with opened(folder, connect=disk.connect) as database:
        database.write(partial(add, name="before"))
        disk.fails = _once(WAL)
        with pytest.raises(StorageUnavailable):
            database.write(partial(add, name="failed", size=9000))
        killed = {each.name: each.read_bytes() for each in folder.iterdir()}
        on_disk = disk.after_power_failure()
    again = restored(tmp_path / "again", killed)
    # What the system's cache has, and the disk has not, for good.
    disk._on_disk.update({file: bytearray(image) for file, image in on_disk.items()})
    disk._pending.clear()
    if not follows_the_rule:
        monkeypatch.setattr(SqliteConnection, "make_safe", lambda _: None)

    with opened(again, connect=disk.connect) as database:
        database.write(partial(add, name="after"))
        image = disk.after_power_failure()

    monkeypatch.undo()
    with opened(restored(tmp_path / "image", image)) as database:
        assert "before" in names(database)
        assert ("after" in names(database)) is follows_the_rule


# ── Disks that fail ──


def test_a_store_that_can_not_be_made_safe_is_dead(folder: Path, disk: RecordedDisk) -> None:
    """It ends the server, and answers nobody, though later syncs would succeed."""
    told: list[str] = []
    with opened(folder, connect=disk.connect, died=told.append) as database:
        failed: list[str] = []

        def fails(file: str) -> bool:
            failed.append(file)
            return len(failed) <= 2

        disk.fails = fails
        for name in ("one", "two", "three"):
            with pytest.raises(StorageUnavailable):
                database.write(partial(add, name=name))

        assert told == [database.dead]
        assert "can't be made safe" in database.dead
        assert len(failed) == 2  # Nothing was tried after that.


def test_a_failed_checkpoint_is_made_good_before_the_next_answer(
    tmp_path: Path,
    folder: Path,
    disk: RecordedDisk,
    monkeypatch: pytest.MonkeyPatch,
    logged: Logged,
) -> None:
    monkeypatch.setattr("shared.adapters.sql.sqlite.connection._CHECKPOINT_PAGES", 8)
    with opened(folder, connect=disk.connect) as database:
        disk.fails = _once(DATABASE)
        for number in range(6):
            database.write(partial(add, name=f"n{number}", size=9000))
        database.write(lambda _: None)  # what follows the commit before is done
        image = disk.after_power_failure()

    (line,) = logged("storage.failed")
    assert line["error"] == "IOError"
    assert "checkpoint: " in str(line["detail"])
    with opened(restored(tmp_path / "image", image)) as database:
        assert names(database) == {f"n{number}" for number in range(6)}


def test_damage_that_is_found_after_a_failure_ends_the_store(
    folder: Path, disk: RecordedDisk
) -> None:
    with opened(folder) as database:
        for number in range(30):
            database.write(partial(add, name=f"n{number}", size=3000))
    with opened(folder, connect=disk.connect) as database:
        disk.fails = _once(WAL)
        with pytest.raises(StorageUnavailable):
            database.write(partial(add, name="failed"))
        _damage(folder / DATABASE)
        with pytest.raises(StorageUnavailable):
            database.write(partial(add, name="after"))

        assert database.dead


def test_a_damaged_database_is_refused_at_the_start(folder: Path) -> None:
    with opened(folder) as database:
        for number in range(30):
            database.write(partial(add, name=f"n{number}", size=3000))
    _damage(folder / DATABASE)

    with pytest.raises(StoreRefused, match="restore a backup"), opened(folder):
        pass


def test_a_database_that_another_program_has_locked_is_an_outage_that_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.adapters.sql.sqlite.files.BUSY_MS", 1)
    with opened(folder) as database:
        other = apsw.Connection(str(folder / DATABASE))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailable):
            database.write(partial(add, name="one"))
        other.execute("ROLLBACK")
        other.close()
        database.write(partial(add, name="two"))

        assert (names(database), database.dead) == ({"two"}, "")


def test_a_full_disk_takes_nothing_new_but_deliveries_go_on(folder: Path) -> None:
    with opened(folder, low_water=2**62) as database:
        with pytest.raises(StorageUnavailable, match="almost full"):
            database.write(partial(add, name="published"), WriteOptions(grows=True))
        database.write(partial(add, name="retry"))

        assert names(database) == {"retry"}


def test_what_is_deleted_is_given_back_and_the_wal_stays_short(folder: Path) -> None:
    with opened(folder) as database:
        for number in range(12):
            database.write(partial(add, name=f"n{number}", size=2_000_000))
        full = database.sizes
        database.write(lambda writing: writing.run("DELETE FROM payloads"))
        for number in range(12):
            database.write(partial(add, name=f"s{number}", size=5_000_000))
            database.write(lambda writing: writing.run("DELETE FROM payloads"))
        sizes = database.sizes

    assert full.database > 24_000_000
    assert sizes.database < 24_000_000
    assert max(full.wal, sizes.wal) < 40_000_000


def test_a_long_reader_makes_no_writer_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup, or a shell: the WAL grows meanwhile, and is emptied afterwards."""
    monkeypatch.setattr("shared.adapters.sql.sqlite.connection._LONGEST_WAL", 1_500)
    monkeypatch.setattr("shared.adapters.sql.sqlite.files.BUSY_MS", 3_600_000)

    def write_all() -> None:
        for number in range(5):
            database.write(partial(add, name=f"n{number}", size=4_000_000))

    with opened(folder) as database:
        database.write(partial(add, name="before"))
        reader = apsw.Connection(str(folder / DATABASE))
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM payloads").fetchall()
        writer = Thread(target=write_all)
        writer.start()
        writer.join(60)
        waits = writer.is_alive()
        long = database.sizes.wal
        reader.execute("ROLLBACK")
        writer.join()
        database.write(partial(add, name="after"))
        database.write(lambda _: None)  # what follows the commit before is done
        emptied = database.sizes.wal
        reader.close()

    assert not waits
    assert long > 16_000_000
    assert emptied < 1_000_000


def _once(file: str) -> Any:
    """Let the next sync of *file* fail."""
    left = [file]

    def fails(synced: str) -> bool:
        if synced in left:
            left.remove(synced)
            return True
        return False

    return fails


def _damage(path: Path) -> None:
    """Write over the pages in the middle of a database."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        file.seek(size // 4096 // 4 * 4096)
        file.write(b"\xa5" * (size // 2))
