"""
The machine of a server: SQLite on a disk, where each statement is a request that may go wrong.

A statement takes a time, fails, or its process is killed before it, after it, or within its sync;
the power fails, and the disk has what was synced. The files go on in a new folder: what is left of
a killed process keeps its locks in this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import apsw

from shared.adapters.sql.database import micros
from shared.adapters.sql.sqlite.files import connect
from shared.adapters.sql.sqlite.folder import DATABASE
from shared.engine.ports import Queue
from tests.integration.sql.databases import restored
from tests.integration.sql.recorded_disk import RecordedDisk
from tests.simulation.kernel import Kernel, Process
from tests.simulation.ledger import SLOW
from tests.simulation.plan import GIVES_UP
from tests.simulation.rows import KEYS, Change, Row, changes_of, kept
from tests.simulation.served_ledger import ServedLedger
from tests.simulation.storage import USUAL, Storm

#: What a transaction does, by the beginning of a statement that it has then.
_TASKS = {
    "UPDATE messages SET run = ?": "a claim",
    "SELECT counts FROM messages WHERE id = ? AND run = ?": "a settlement",
}
_READ = {"documents", "attempts", "counts"}  # ports whose storms hit what reads
DIES_THEN = 0.3  # of the servers whose sync has failed
_YIELDS = 0.03  # of the statements: they take a moment
_names = count()


class _Fate(NamedTuple):
    """What becomes of a statement."""

    before: float = 0.0  # seconds
    after: float = 0.0
    fails: type[apsw.Error] | None = None
    is_done: bool = True  # though it fails
    sync_fails: bool = False


class _Storm(NamedTuple):
    """What a storm is here."""

    name: str
    fate: Callable[[Callable[[], float]], _Fate]
    share: float  # of the statements that it would hit there
    statements: tuple[str, ...] = ()  # that are hit at any rate
    hits_writer: bool = False  # alone


STORMS = {
    "slow": _Storm("slow", lambda draw: _Fate(draw() * GIVES_UP / 2, draw() * GIVES_UP / 2), 0.1),
    "takes effect late": _Storm("hangs", lambda draw: _Fate(draw() * 2 * GIVES_UP), 0.1),
    "fails before": _Storm(
        "fails", lambda draw: _Fate(draw(), fails=apsw.IOError, is_done=False), 0.2
    ),
    "fails after": _Storm(
        "fails after", lambda draw: _Fate(draw(), draw(), apsw.IOError), 0.1, ("COMMIT",)
    ),
    "stored twice": _Storm(
        "a sync fails", lambda draw: _Fate(draw(), sync_fails=True), 0, ("COMMIT", "checkpoint")
    ),
    "outage": _Storm(
        "is full",
        lambda draw: _Fate(draw() / 10, fails=apsw.FullError, is_done=False),
        share=1,
        hits_writer=True,
    ),
    "untimed": _Storm(
        "is locked", lambda _: _Fate(5, fails=apsw.BusyError, is_done=False), 0, ("IMMEDIATE",)
    ),
}


class Mirror:
    """What is stored for good, row by row; *ledger* hears of each commit."""

    def __init__(
        self,
        kernel: Kernel,
        ledger: ServedLedger,
    ) -> None:
        self.kernel, self._ledger = kernel, ledger
        self._fault, self._find = ledger.fault, ledger.find
        self.rows: dict[str, dict[Row, Row]] = {table: {} for table in KEYS}

    def due(self, queue: Queue, now: datetime) -> bool:
        """Tell whether a message of a queue is due that nobody has in hand."""
        at, name = micros(now), queue.value
        found = self.rows["messages"].values()
        return any(row[1] == name and row[4] == 0 and row[2] <= at for row in found)

    def _tell(self, process: Process, changes: Sequence[Change]) -> None:
        try:
            self._ledger.committed(process, changes)
        except Exception as error:  # noqa: BLE001 - the app would take it for its own
            self._find("harness", repr(error))

    def _keep(self, changes: Sequence[Change]) -> None:
        for each in changes:
            rows = self.rows[each.table]
            if each.old is not None:
                rows.pop(each.old[: KEYS[each.table]], None)
            if each.new is not None:
                rows[each.key] = each.new


class Machine(Mirror):
    """
    The disk and its faults; *ledger* hears of them.

    *is_struck* counts a request, and tells whether its process is to be killed now, by *die*.
    """

    def __init__(
        self,
        kernel: Kernel,
        ledger: ServedLedger,
        storms: Sequence[Storm],
        chance: Random,
        seen: Counter[str],
        folder: Path,
        is_struck: Callable[[Process, Collection[str], str], bool],
        die: Callable[[Process, str], object],
    ) -> None:
        super().__init__(kernel, ledger)
        self._storms, self.chance = storms, chance
        self._seen, self._folder = seen, folder
        self._is_struck, self._die = is_struck, die
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
            self._kill(connection, "before", verb)
        began = self.kernel.now
        self.kernel.sleep(fate.before)
        result = self._done(connection, statement, effect, fate)
        if self._is_struck(process, aims, "after"):
            self._kill(connection, "after", verb)
        self.kernel.sleep(fate.after)
        if (took := self.kernel.now - began) > SLOW:
            self._fault(process, f"waits {took:.0f} s for {verb}")
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
        self._kill(connection, "within", "COMMIT")

    def _kill(self, connection: _Connection, when: str, verb: str) -> None:
        tasks = [f"in {each}" for each in sorted(connection.tasks)]
        self._seen.update(f"killed {each}" for each in (f"at {verb}", *tasks))
        self._die(connection.process, " ".join((when, verb, *tasks)))

    def _fate(self, statement: str, verb: str, *, is_write: bool) -> _Fate:
        draw, now = self.chance.random, self.kernel.now
        if verb not in ("ROLLBACK", "RELEASE"):  # which never fail: they write nothing
            for storm in self._storms:
                is_near = storm.since <= now < storm.until
                if not is_near or not _concerns(storm, is_write=is_write):
                    continue
                fate = draw() < storm.share and self._stormy(storm.kind, statement, is_write)
                if fate:
                    return fate
        if verb == "COMMIT" or draw() < _YIELDS:
            return _Fate(before=draw() * USUAL) if draw() < 0.5 else _Fate(after=draw() * USUAL)
        return _Fate()

    def _stormy(self, kind: str, statement: str, is_write: bool) -> _Fate | None:  # noqa: FBT001
        """Return what a storm of Azure's kinds does to a statement, if anything."""
        storm, draw = STORMS[kind], self.chance.random
        is_hit = any(each in statement for each in storm.statements) or draw() < storm.share
        if not is_hit or (storm.hits_writer and not is_write):
            return None
        self._seen[f"sqlite {storm.name}"] += 1
        return storm.fate(draw)

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
                self._seen["sqlite stores what nobody knows"] += 1
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


def _concerns(storm: Storm, *, is_write: bool) -> bool:
    return not storm.ports or any((each in _READ) != is_write for each in storm.ports)
