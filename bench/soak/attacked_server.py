"""
`pushgrid serve` with faults of its store, which come when they are asked for on standard input.

Lines: ``kill KIND SIDE PLACE`` ends it, before or after it does something of that kind for the
so-manieth time, and ``stop`` stops it there; ``fail KIND TIMES`` lets syncs fail, of a file or, by
``sync of KIND``, in a statement; ``calm`` forgets all that. ``suspend SECONDS`` lets the clock that
leases go by jump, as after a suspend. It ends with its input.

On PostgreSQL leases are shorter by the factor `LEASES`, and its own clock is `AHEAD` by seconds.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from cli.serve import serve
from server import own_work
from shared import telemetry
from shared.adapters.sql import store
from shared.adapters.sql.database import Row
from shared.adapters.sql.postgres import committer, connections, database, processes, schema
from shared.adapters.sql.postgres.transaction import Transaction
from shared.adapters.sql.queues import SqlQueues
from shared.adapters.sql.sender import SqlSender
from shared.adapters.sql.sqlite import connection
from shared.adapters.sql.sqlite import database as sqlite_database
from shared.adapters.sql.sqlite.connection import SqliteConnection
from shared.adapters.sql.sqlite.folder import DATABASE
from shared.clock import SystemClock
from shared.engine.ports import Queue, Receipt, Received

AHEAD, LEASES = "SOAK_CLOCK_AHEAD", "SOAK_LEASES"  # in its environment
SUSPENDED = "soak.suspended"  # is logged when the clock of leases shows it
_DONE = 0.02  # seconds in which a database has done what was sent
_UNIX = "unix"  # SQLite's own VFS
FILES = {DATABASE: "database", f"{DATABASE}-wal": "wal"}
_CHECKPOINT_PAGES = 200  # instead of 1,000: checkpoints are what is attacked, too
_TIMERS_EVERY = timedelta(seconds=1)
_HIDDEN = timedelta(seconds=4)  # what a timer has in hand comes back then, if it was killed
_CHANGE = re.compile(r"(INSERT INTO|DELETE FROM|UPDATE) (\w+)(?: SET (\w+))?")
_PRAGMA = re.compile(r"PRAGMA (\w+)")


def kind_of(statement: str) -> str:
    """Name what a statement does: ``begin``, ``insert messages``, ``update messages due`` …"""
    if found := _CHANGE.match(statement):
        verb, table, column = found.groups()
        return " ".join(filter(None, (verb.split()[0].lower(), table, column)))
    if found := _PRAGMA.match(statement):
        return found[1]
    return statement.split(" ", 1)[0].lower()


class Faults:
    """What is to fail."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._end: tuple[str, str] | None = None  # a kind, and before or after
        self._signal = signal.SIGKILL
        self._place = 0
        self._suspended = self._noticed = 0.0  # seconds
        self._failing: dict[str, int] = {}  # by kind, how many times

    def take(self, line: str) -> None:
        """Take a line of standard input."""
        what, *words = line.split("\t")
        with self._lock:
            self._end, self._failing = None, {}
            if what in ("kill", "stop"):
                kind, side, place = words
                self._end, self._place = (kind, side), int(place)
                self._signal = signal.SIGKILL if what == "kill" else signal.SIGSTOP
            elif what == "suspend":
                self._suspended += float(words[0])
            elif what == "fail":
                kind, times = words
                self._failing[kind] = int(times)

    def suspended(self) -> float:
        """Return for how many seconds it was suspended; who asks first is logged."""
        with self._lock:
            is_new, self._noticed = self._suspended > self._noticed, self._suspended
        if is_new:
            telemetry.info(SUSPENDED)
        return self._noticed

    @contextmanager
    def at(self, kind: str, *, done_in: float = 0.0) -> Iterator[None]:
        """Do something of a kind in the block; *done_in* so many seconds after it."""
        is_last = self._counts(kind)
        if is_last == "before":
            os.kill(os.getpid(), self._signal)
        yield
        if is_last == "after":
            time.sleep(done_in)
            os.kill(os.getpid(), self._signal)

    def _counts(self, kind: str) -> str | None:
        with self._lock:
            if not self._end or self._end[0] != kind:
                return None
            self._place -= 1
            return None if self._place else self._end[1]

    def fails(self, kind: str) -> bool:
        with self._lock:
            left = self._failing.get(kind, 0)
            self._failing[kind] = max(0, left - 1)
            return left > 0


FAULTS = Faults()


class _Statement(threading.local):
    """What this thread executes."""

    kind = ""


_STATEMENT = _Statement()


class _AttackedConnection(SqliteConnection):
    def rows(self, statement: str, *parameters: object) -> list[Row]:
        _STATEMENT.kind = kind_of(statement)
        with FAULTS.at(_STATEMENT.kind):
            return super().rows(statement, *parameters)

    def run_all(self, statement: str, parameters: Iterable[Row]) -> None:
        _STATEMENT.kind = kind_of(statement)
        with FAULTS.at(_STATEMENT.kind):
            super().run_all(statement, parameters)


class _AttackedTransaction(Transaction):
    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Any:
        with FAULTS.at(kind_of(statement), done_in=_DONE):
            return super().execute(statement, parameters)


class _AttackedVfs(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("attacked", _UNIX, makedefault=True)

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return _AttackedFile(name, flags)


class _AttackedFile(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._file = FILES.get(Path(path).name, "other")
        super().__init__(_UNIX, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        with FAULTS.at(f"write {self._file}"):
            super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        kind = f"sync {self._file}"
        if FAULTS.fails(kind) or FAULTS.fails(f"sync of {_STATEMENT.kind}"):
            raise apsw.IOError(f"{kind} fails")
        with FAULTS.at(kind):
            super().xSync(flags)


class _AttackedQueues(SqlQueues):
    def receive(self, queue: Queue, hidden_for: timedelta) -> Sequence[Received]:
        return super().receive(queue, min(hidden_for, _HIDDEN))


class _AttackedSender(SqlSender):
    async def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        if queue is Queue.DEADLETTERS:
            visible_in = min(visible_in, _HIDDEN)
        return await super().replace(queue, receipt, text, visible_in)


def _listen() -> None:
    for line in sys.stdin:
        FAULTS.take(line.rstrip("\n"))
    os.kill(os.getpid(), signal.SIGKILL)  # nobody attacks it any more


def _attack_postgres(factor: float) -> None:
    for module in (committer, connections, schema):
        setattr(module, "Transaction", _AttackedTransaction)  # noqa: B010 - it is the module's
    for name in ("LEASE_SECONDS", "DEAD_SECONDS", "RENEWED_EVERY", "OBSERVED_EVERY"):
        setattr(processes, name, getattr(processes, name) * factor)
    if factor < 1:
        processes._MISSED = 8  # noqa: SLF001 - a busy machine takes seconds for a look
    _let_leases_suspend()


def _let_leases_suspend() -> None:
    """Have the clock of leases go by `FAULTS`; the database's time is what it is."""
    true, time = processes.boottime, processes.DatabaseTime
    options = database.PostgresDatabase.__init__.__kwdefaults__
    options["boottime"] = lambda: true() + FAULTS.suspended()  # type: ignore[index]
    setattr(database, "DatabaseTime", lambda _: time(true))  # noqa: B010


def _set_clock(ahead: timedelta) -> None:
    def now(_: SystemClock) -> datetime:
        return datetime.now(UTC) + ahead

    setattr(SystemClock, "now", now)  # noqa: B010


def main() -> None:
    """Serve with the arguments of `pushgrid serve`."""
    _attack_postgres(float(os.environ.get(LEASES, "1")))
    _set_clock(timedelta(seconds=float(os.environ.get(AHEAD, "0"))))
    setattr(sqlite_database, "SqliteConnection", _AttackedConnection)  # noqa: B010
    connection._CHECKPOINT_PAGES = _CHECKPOINT_PAGES  # noqa: SLF001
    own_work.TIMERS_EVERY = _TIMERS_EVERY
    for name, attacked in (("SqlQueues", _AttackedQueues), ("SqlSender", _AttackedSender)):
        setattr(store, name, attacked)
    vfs = _AttackedVfs()
    threading.Thread(target=_listen, daemon=True).start()
    serve.main(standalone_mode=True)
    vfs.unregister()


if __name__ == "__main__":
    main()
