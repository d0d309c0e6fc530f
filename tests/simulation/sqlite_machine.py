"""
The machine of a server: SQLite on a disk, where each statement is a request that may go wrong.

A statement takes a time, fails, or its process is killed before it, after it, or within its sync;
the power fails, and the disk has what was synced. The files go on in a new folder: what is left of
a killed process keeps its locks in this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from shared.adapters.sql.sqlite.files import connect
from shared.adapters.sql.sqlite.folder import DATABASE
from tests.integration.sql.recorded_disk import RecordedDisk, restored
from tests.simulation.kernel import Process
from tests.simulation.mirror import Draw, Fate, Mirror, StormHere
from tests.simulation.plan import GIVES_UP
from tests.simulation.rows import KEYS, Change, Row, changes_of, kept
from tests.simulation.storage import Storm

#: What a transaction does, by the beginning of a statement that it has then.
_TASKS = {
    "UPDATE messages SET run = ?": "a claim",
    "SELECT counts FROM messages WHERE id = ? AND run = ?": "a settlement",
}
_READ = {"documents", "attempts", "counts"}  # ports whose storms hit what reads
DIES_THEN = 0.3  # of the servers whose sync has failed
_names = count()


@dataclass(slots=True, kw_only=True)
class _Fate(Fate):
    fails: type[apsw.Error] | None = None
    is_done: bool = True  # though it fails
    sync_fails: bool = False


def _fails(draw: Draw) -> _Fate:
    return _Fate(before=draw(), fails=apsw.IOError, is_done=False)


def _is_slow(draw: Draw) -> _Fate:
    return _Fate(before=draw() * GIVES_UP / 2, after=draw() * GIVES_UP / 2)


def _fails_after(draw: Draw) -> _Fate:
    return _Fate(before=draw(), after=draw(), fails=apsw.IOError)


def _is_full(draw: Draw) -> _Fate:
    return _Fate(before=draw() / 10, fails=apsw.FullError, is_done=False)


#: What the plan's storms are here.
STORMS = {
    "slow": StormHere("slow", _is_slow, 0.1),
    "takes effect late": StormHere("hangs", lambda draw: _Fate(before=draw() * 2 * GIVES_UP), 0.1),
    "fails before": StormHere("fails", _fails, 0.2),
    "fails after": StormHere("fails after", _fails_after, 0.1, ("COMMIT",)),
    "stored twice": StormHere(
        "a sync fails",
        lambda draw: _Fate(before=draw(), sync_fails=True),
        0,
        ("COMMIT", "checkpoint"),
    ),
    "outage": StormHere("is full", _is_full, 1, hits_writer=True),
    "untimed": StormHere(
        "is locked",
        lambda _: _Fate(before=5, fails=apsw.BusyError, is_done=False),
        0,
        ("IMMEDIATE",),
    ),
}


class Machine(Mirror[_Fate]):
    """The disk in *folder*, and its faults."""

    storms_here, usual, yields = STORMS, _Fate, 0.03

    def __init__(self, folder: Path, *given: Any) -> None:
        super().__init__(*given)
        self._folder = folder
        self.disk = RecordedDisk(f"simulated {next(_names)}")
        self._folders = count()
        self.folder = folder / "none yet"
        self._doubtful: tuple[Process, Sequence[Change]] | None = None  # a commit
        self._connections: list[apsw.Connection] = []

    def connect(self, process: Process, database: Path) -> apsw.Connection:
        connection = _Connection(self, process, database)
        self._connections.append(connection)
        return connection

    def start(self) -> Path:
        """Return the folder for the next process, with what was left, which has to be whole."""
        images = self.disk.written_so_far()
        self.folder = restored(self._folder / str(next(self._folders)), images)
        self._compare()
        return self.folder

    def stop(self, *, loses_power: bool) -> None:
        """Keep what a process leaves that is killed now."""
        if loses_power:
            images = self.disk.after_power_failure(chance=self.chance)
            self.disk.restore(({file: bytearray(each) for file, each in images.items()}, {}))

    def close(self) -> None:
        for each in self._connections:
            with suppress(apsw.Error):
                each.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                each.close(True)
        self.disk.unregister()

    # ── Statements ──

    def request(
        self, connection: _Connection, statement: str, effect: Callable[[], list[Row]]
    ) -> list[Row]:
        """Do what a statement asks for, or not."""
        if self.kernel.current is None:  # nobody is asking: all is over
            return effect()
        process, verb = connection.process, statement.split(None, 1)[0]
        fate = self._fate(statement, verb, is_write=connection.writes)
        connection.note(statement)
        stores = verb == "COMMIT" and bool(connection.journal)
        aims = connection.tasks | {verb} if stores or verb != "COMMIT" else connection.tasks
        if self._is_struck(process, aims, "before"):
            if stores and self.chance.random() < 0.7:
                self._die_inside(connection, effect)
            self._kill(process, "before", connection.tasks, verb)
        began = self.kernel.now
        self.kernel.sleep(fate.before)
        result = self._done(connection, statement, effect, fate)
        if self._is_struck(process, aims, "after"):
            self._kill(process, "after", connection.tasks, verb)
        self.kernel.sleep(fate.after)
        self._note_slow(process, began, verb)
        if fate.fails:
            self._fault(process, f"fails: {statement[:40]}: {fate.fails.__name__}")
            raise fate.fails("simulated")
        return result

    def _done(
        self, connection: _Connection, statement: str, effect: Callable[[], list[Row]], fate: _Fate
    ) -> list[Row]:
        if not fate.is_done:
            return []
        if statement == "COMMIT" and connection.writes:
            return self._commit(connection, effect, fate)
        self.disk.fails = lambda _: fate.sync_fails
        try:
            result = effect()
        except apsw.IOError:
            self._fault(connection.process, f"fails: {statement[:40]}")
            raise
        finally:
            self.disk.fails = lambda _: False
        if statement.startswith("SAVEPOINT"):
            connection.part = len(connection.journal)
        elif statement.startswith("ROLLBACK TO"):
            del connection.journal[connection.part :]
        elif statement in ("BEGIN IMMEDIATE", "ROLLBACK"):
            connection.journal = []
        elif "TRUNCATE" in statement and not result[0][0]:
            self._doubtful = None  # what has failed is nowhere any more
        return result

    def _commit(
        self, connection: _Connection, effect: Callable[[], list[Row]], fate: _Fate
    ) -> list[Row]:
        process, changes = connection.process, connection.journal
        connection.journal = []
        self.disk.fails = lambda _: fate.sync_fails
        try:
            result = effect()
        except apsw.Error:
            self._doubtful = process, changes
            self._fault(process, "fails: COMMIT: its sync")
            if self.chance.random() < DIES_THEN:
                self._die(process, "when its sync has failed")
            raise
        finally:
            self.disk.fails = lambda _: False
        self._keep(changes)
        self._tell(process, changes)
        return result

    def _die_inside(self, connection: _Connection, effect: Callable[[], list[Row]]) -> None:
        """Be killed when all is written, and nothing is synced."""
        found = []
        self.disk.before_sync = lambda _: found.append(self.disk.snapshot())
        with suppress(apsw.Error):
            effect()
        self.disk.before_sync = lambda _: None
        if found:
            self.disk.restore(found[0])
        self._doubtful = connection.process, connection.journal
        self._kill(connection.process, "within", connection.tasks, "COMMIT")

    def _fate(self, statement: str, verb: str, *, is_write: bool) -> _Fate:
        never_fails = verb in ("ROLLBACK", "RELEASE")  # they write nothing
        fate = None if never_fails else self._by_storm(statement, is_write=is_write)
        return fate or self._without_fault(stores=verb == "COMMIT")

    def _concerns(self, storm: Storm, *, is_write: bool) -> bool:
        return not storm.ports or any((each in _READ) != is_write for each in storm.ports)

    def _hit(self, here: StormHere[_Fate]) -> _Fate:
        self.seen[f"sqlite {here.name}"] += 1
        return super()._hit(here)

    # ── The mirror ──

    def _compare(self) -> None:
        """Find what was stored and is not there; a commit of unknown outcome may be."""
        found = self._found()
        doubtful, self._doubtful = self._doubtful, None
        if found == self.rows:
            return
        before = {table: dict(rows) for table, rows in self.rows.items()}
        if doubtful:
            self._keep(doubtful[1])
            if found == self.rows:
                self.seen["sqlite stores what nobody knows"] += 1
                self._tell(*doubtful)
                return
        for table, rows in before.items():
            wrong = {
                key
                for key in rows.keys() | found[table]
                if _of(rows, key) != _of(found[table], key)
            }
            for key in sorted(wrong, key=str)[:3]:
                self._find("disk", f"{table} {key}: {_of(rows, key)} is {_of(found[table], key)}")
        self.rows = found

    def _found(self) -> dict[str, dict[Row, Row]]:
        if not (self.folder / DATABASE).exists():
            return {table: {} for table in KEYS}
        try:
            with closing(connect(self.folder / DATABASE)) as file:
                file.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                return {table: _read(file, table) for table in KEYS}
        except apsw.Error as error:
            self._find("disk", repr(error))
            return self.rows


class _Connection(apsw.Connection):
    """A connection of a server; the one that writes keeps a journal."""

    def __init__(self, machine: Machine, process: Process, database: Path) -> None:
        super().__init__(str(database), apsw.SQLITE_OPEN_READWRITE, machine.disk.name)
        self._machine = machine
        self.process = process
        self.writes = False
        self.journal: list[Change] = []  # of the transaction
        self.part = 0  # where the savepoint's begin
        self.tasks = set[str]()  # of the transaction

    def set_wal_hook(self, callable: Any) -> None:  # noqa: A002 - apsw's name
        self.writes = True
        self.preupdate_hook(self._changed, id="journal")
        super().set_wal_hook(callable)

    def note(self, statement: str) -> None:
        """Note what the transaction does."""
        if statement == "BEGIN IMMEDIATE":
            self.tasks = set()
        self.tasks |= {task for start, task in _TASKS.items() if statement.startswith(start)}

    def execute(self, statements: str, *given: Any, **named: Any) -> Any:
        run = super().execute
        return self._machine.request(
            self, statements, lambda: _Rows(run(statements, *given, **named).fetchall())
        )

    def executemany(self, statements: str, *given: Any, **named: Any) -> Any:
        run = super().executemany
        return self._machine.request(
            self, statements, lambda: _Rows(run(statements, *given, **named).fetchall())
        )

    def _changed(self, change: apsw.PreUpdate) -> None:
        self.journal += changes_of(change)


class _Rows(list[Row]):
    """What a cursor has."""

    def fetchall(self) -> list[Row]:
        return self


def _read(file: apsw.Connection, table: str) -> dict[Row, Row]:
    if not file.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchall():
        return {}
    rows = file.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - ours
    return {row[: KEYS[table]]: kept(table, row) for row in rows}


def _of(rows: Mapping[Row, Row], key: Row) -> str:
    return str(rows.get(key))[:200]
