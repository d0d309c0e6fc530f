"""Who may use the folder of a store, and what is said to those who may not."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.adapters.sql import migrations
from shared.adapters.sql.database import StoreRefused, moment
from shared.adapters.sql.migrations import Migration
from shared.adapters.sql.sqlite.copies import back_up, restore
from shared.adapters.sql.sqlite.database import SqliteDatabase
from shared.adapters.sql.sqlite.reader import check_store
from shared.watched_clock import WatchedClock
from tests.integration.sql.databases import add, names, opened

ROOT = Path(__file__).parents[3]
NOBODY = 65534
_HOLD = """
import sys
from shared.watched_clock import WatchedClock
from tests.integration.sql.databases import opened
with opened(__import__("pathlib").Path(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""

_WRITES = """
import sys
from tests.integration.sql.databases import add, opened
with opened(__import__("pathlib").Path(sys.argv[1])) as database:
    database.write(lambda writing: add(writing, "one"))
    print("ready", flush=True)
    sys.stdin.readline()
    database.write(lambda writing: add(writing, "two"))
    print("written", flush=True)
    sys.stdin.read()
"""
#: Restores, and is killed before it renames the file of a name.
_KILLED = """
import os, sys
from pathlib import Path
from shared.adapters.sql.sqlite.copies import restore
folder, copy, at = sys.argv[1:]
rename = Path.rename
def killed(self, to):
    if self.name == at:
        os.kill(os.getpid(), 9)
    return rename(self, to)
Path.rename = killed
restore(Path(folder), Path(copy))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def started(folder: Path, program: str = _HOLD) -> subprocess.Popen[str]:
    """Start a program in a process of its own; return once it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_folder_has_one_server_until_that_ends(folder: Path) -> None:
    with started(folder) as first:
        said = f"process {first.pid}.*Stop it, or name another"
        with pytest.raises(StoreRefused, match=said), opened(folder):
            pass
        first.send_signal(signal.SIGKILL)
        first.wait()

    with opened(folder) as database:
        assert database.run == 2


def test_nobody_else_reads_it(folder: Path) -> None:
    before = os.umask(0)
    try:
        with opened(folder) as database:
            database.write(lambda writing: add(writing, "one"))
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    finally:
        os.umask(before)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert set(modes) == {"lock", "pushgrid.db", "pushgrid.db-shm", "pushgrid.db-wal"}
    assert set(modes.values()) == {0o600}


def test_a_folder_that_others_could_read_is_closed_to_them(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    (folder / "pushgrid.db").touch(mode=0o644)

    with opened(folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "pushgrid.db").stat().st_mode) == 0o600


def test_a_folder_of_somebody_else_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)

    with pytest.raises(StoreRefused, match="belongs to another user"), opened(folder):
        pass


def test_a_path_that_is_no_folder_is_refused(folder: Path) -> None:
    folder.write_text("")

    with pytest.raises(StoreRefused, match=r"File exists\. Name a folder"), opened(folder):
        pass


def test_a_link_to_a_database_is_not_followed(folder: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "other"):
        pass
    database = tmp_path / "other" / "pushgrid.db"
    before = database.read_bytes()
    folder.mkdir()
    (folder / "pushgrid.db").symlink_to(database)

    for _ in range(2):  # The lock was released.
        with pytest.raises(StoreRefused, match="is a symbolic link"), opened(folder):
            pass
    with pytest.raises(StoreRefused, match="is a symbolic link"):
        check_store(folder)
    assert database.read_bytes() == before


def test_a_link_to_a_lock_is_not_followed(folder: Path, tmp_path: Path) -> None:
    """Its file would be written, and lock nothing for who names the other folder."""
    other = tmp_path / "other"
    other.write_text("somebody's")
    folder.mkdir()
    (folder / "lock").symlink_to(other)

    with pytest.raises(StoreRefused, match="lock' is a symbolic link"), opened(folder):
        pass
    assert other.read_text() == "somebody's"


def test_what_is_no_database_is_refused(folder: Path) -> None:
    folder.mkdir()
    (folder / "pushgrid.db").write_text("not a database, but long enough to be one " * 100)

    with pytest.raises(StoreRefused, match="no SQLite database"), opened(folder):
        pass
    with pytest.raises(StoreRefused, match="no SQLite database"), opened(folder):
        pass  # The lock was released.


def test_the_database_of_another_program_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    other = sqlite3.connect(folder / "pushgrid.db")
    other.execute("CREATE TABLE theirs (a)")
    other.close()
    before = (folder / "pushgrid.db").read_bytes()

    with pytest.raises(StoreRefused, match="a database of another program"), opened(folder):
        pass
    assert (folder / "pushgrid.db").read_bytes() == before


def test_a_file_that_is_read_only_is_refused(folder: Path) -> None:
    with opened(folder):
        pass
    (folder / "pushgrid.db").chmod(0o400)
    user = os.geteuid()
    if user == 0:  # who may write whatever the mode says
        for path in (folder, *folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)
        for above in folder.parents:
            if above.stat().st_mode & 0o777 == 0o700:
                above.chmod(0o755)
        os.seteuid(NOBODY)
    try:
        said = "Let it belong to the server's user"
        with pytest.raises(StoreRefused, match=said), opened(folder):
            pass
    finally:
        os.seteuid(user)


# ── Versions ──


_MORE = Migration(2, 1, "9.9", "CREATE TABLE more (a {number}) {table};")
_OTHER = Migration(2, 2, "9.9", "DROP TABLE payloads;")


def _steps(monkeypatch: pytest.MonkeyPatch, *more: Migration) -> None:
    monkeypatch.setattr(migrations, "_STEPS", (migrations._STEPS[0], *more))
    monkeypatch.setattr(migrations, "LATEST", 1 + len(more))


def test_the_file_is_copied_before_it_is_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(folder) as database:
        database.write(lambda writing: add(writing, "one"))
    _steps(monkeypatch, _MORE)
    with opened(folder) as database:
        assert database.read(lambda reading: reading.rows("SELECT * FROM more")) == []

    (copy,) = (folder / "backups").iterdir()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    old = sqlite3.connect(copy)
    assert old.execute("SELECT name FROM payloads").fetchall() == [("one",)]
    assert old.execute("SELECT MAX(number) FROM migrations").fetchall() == [(1,)]
    old.close()


def test_a_schema_is_used_by_the_programs_that_it_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        _steps(newer, _MORE)
        with opened(folder):
            pass
    with opened(folder) as database:
        assert names(database) == set()

    with monkeypatch.context() as newer:
        _steps(newer, _MORE, _OTHER._replace(number=3, oldest=3))
        with opened(folder):
            pass
    said = r"Pushgrid 9\.9 or newer.*by 'pushgrid restore', take a copy of before"
    with pytest.raises(StoreRefused, match=said), opened(folder):
        pass


def test_the_copy_of_before_is_the_way_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a copy of a newer program's store is not restored: no server could use it."""
    with opened(folder) as database:
        database.write(lambda writing: add(writing, "one"))
    newer = folder.parent / "newer.db"
    with monkeypatch.context() as upgrade:
        _steps(upgrade, _OTHER)
        with opened(folder):
            back_up(folder, newer)
    with pytest.raises(StoreRefused, match=r"Pushgrid 9\.9 or newer"):
        check_store(folder)
    with pytest.raises(StoreRefused, match=r"newer\.db.*Pushgrid 9\.9 or newer"):
        restore(folder, newer)

    (copy,) = (folder / "backups").iterdir()
    restore(folder, copy)

    check_store(folder)
    with opened(folder) as database:
        assert names(database) == {"one"}


def test_a_step_that_fails_leaves_what_was_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(folder) as database:
        database.write(lambda writing: add(writing, "one"))
    with monkeypatch.context() as newer:
        _steps(newer, _MORE._replace(script="DELETE FROM payloads;\nSELECT missing;"))
        with pytest.raises(StoreRefused, match="no such column"), opened(folder):
            pass

    with opened(folder) as database:
        assert names(database) == {"one"}


# ── Clock ──


def seen(database: SqliteDatabase) -> datetime:
    """Return the latest time that was stored."""
    wanted = "SELECT value FROM state WHERE name = 'seen'"
    return moment(database.read(lambda reading: reading.rows(wanted)[0][0]))


def test_the_latest_time_is_remembered(folder: Path) -> None:
    """The machine has no battery for its clock: it starts in the past."""
    clock = FakeClock()
    with opened(folder, clock=clock) as database:
        database.write(lambda writing: add(writing, "one"))
        clock.advance(timedelta(hours=5))
        database.write(lambda writing: add(writing, "two"))
    for _ in range(2):
        past = FakeClock(START - timedelta(days=300))
        with opened(folder, clock=past) as database:
            database.write(lambda writing: add(writing, f"run {database.run}"))
            assert seen(database) == START + timedelta(hours=5)


@pytest.mark.parametrize("starts", [START - timedelta(days=300), START + timedelta(hours=6)])
def test_the_clock_is_right_if_it_is_not_before_that(folder: Path, starts: datetime) -> None:
    """Until then the later time is read, and nothing ends by age."""
    clock = FakeClock()
    with opened(folder, clock=clock) as database:
        clock.advance(timedelta(hours=5))
        database.write(lambda writing: add(writing, "one"))
    watched = WatchedClock(lambda: starts, lambda: 0.0, awaits_storage=True)

    with opened(folder, clock=watched, told=watched.storage_answered):
        assert watched.is_trusted is (starts > START)
        assert watched.now() >= START + timedelta(hours=5)


@pytest.mark.parametrize(("minutes", "is_believed"), [(120, False), (25 * 60, True)])
def test_a_clock_that_leaps_is_believed_by_later_starts_after_a_day(
    folder: Path,
    minutes: int,
    is_believed: bool,  # noqa: FBT001
) -> None:
    """It was wrong until somebody set it, or the machine was off for long."""
    machine, years = FakeClock(), timedelta(days=14 * 365)

    def run(minutes: int, wrong_by: timedelta = timedelta()) -> datetime:
        """Return the time that the process has at its end."""
        clock = WatchedClock(
            lambda: machine.now() + wrong_by, machine.monotonic, awaits_storage=True
        )
        options = {"clock": clock, "told": clock.storage_answered, "monotonic": machine.monotonic}
        with opened(folder, **options) as database:
            for _ in range(minutes // 5):
                machine.advance(timedelta(minutes=5))
                database.write(lambda _: None)
            return clock.now()

    run(10)
    run(minutes, years)
    assert (run(30) - machine.now() > timedelta(days=300)) is is_believed


def test_a_clock_that_is_not_trusted_is_not_believed(folder: Path) -> None:
    clock = FakeClock()
    watched = WatchedClock(clock.now, lambda: 0.0)
    with opened(folder, clock=watched) as database:
        database.write(lambda _: None)
        clock.advance(timedelta(hours=5))  # It leaps: no time has passed.
        database.write(lambda _: None)
    with opened(folder, clock=FakeClock()) as database:
        assert seen(database) == START


# ── Copies ──


def test_a_copy_is_complete_and_private(folder: Path, tmp_path: Path) -> None:
    """Of one moment, while others write; it is used as any database."""
    copied = tmp_path / "copied"
    copied.mkdir()
    with opened(folder) as database:
        database.write(lambda writing: add(writing, "one"))
        back_up(folder, copied / "pushgrid.db")
        database.write(lambda writing: add(writing, "two"))
        with pytest.raises(StoreRefused, match="exists"):
            back_up(folder, copied / "pushgrid.db")

    assert stat.S_IMODE((copied / "pushgrid.db").stat().st_mode) == 0o600
    with opened(copied) as database:
        assert names(database) == {"one"}


def test_a_copy_is_restored_and_what_it_replaces_is_kept(folder: Path, tmp_path: Path) -> None:
    """The replaced one may be damaged: it is moved as it is."""
    copy = tmp_path / "copy.db"
    with opened(folder) as database:
        database.write(lambda writing: add(writing, "one"))
        back_up(folder, copy)
        database.write(lambda writing: add(writing, "two"))
        with pytest.raises(StoreRefused, match="Another server"):
            restore(folder, copy)
    (folder / "pushgrid.db").write_bytes(b"damaged")

    former = restore(folder, copy)

    assert former
    assert (former / "pushgrid.db").read_bytes() == b"damaged"
    assert stat.S_IMODE((folder / "pushgrid.db").stat().st_mode) == 0o600
    with opened(folder) as database:
        assert names(database) == {"one"}


@pytest.mark.parametrize("content", [b"", b"no database " * 1000])
def test_what_is_no_copy_is_not_restored(folder: Path, tmp_path: Path, content: bytes) -> None:
    with opened(folder) as database:
        database.write(lambda writing: add(writing, "one"))
    copy = tmp_path / "copy.db"
    copy.write_bytes(content)

    with pytest.raises(StoreRefused, match=r"copy\.db"):
        restore(folder, copy)

    with opened(folder) as database:
        assert names(database) == {"one"}


@pytest.mark.parametrize("at", ["restored.db", "pushgrid.db", "pushgrid.db-wal", "next.db"])
def test_a_restore_that_is_killed_loses_nothing(folder: Path, tmp_path: Path, at: str) -> None:
    """The next start goes on with it, or none of it was done; the former store keeps its WAL."""
    copy = tmp_path / "copy.db"
    with started(folder, _WRITES) as server:
        back_up(folder, copy)
        assert server.stdin
        print("go on", file=server.stdin, flush=True)
        assert server.stdout
        assert server.stdout.readline() == "written\n"
        server.kill()
    assert (folder / "pushgrid.db-wal").stat().st_size > 0
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(folder), str(copy), at], cwd=ROOT, check=False
    )
    assert killed.returncode == -signal.SIGKILL

    with opened(folder) as database:
        found = names(database)

    if at == "restored.db":
        assert found == {"one", "two"}
        return
    assert found == {"one"}
    (former,) = (folder / "backups").glob("replaced-*")
    with opened(former) as database:
        assert names(database) == {"one", "two"}
