"""
The database of several servers: PostgreSQL as they see it, played by SQLite.

The servers' own code runs: only the connection is simulated. What a pipeline sends together is one
round trip: it gets lost, takes effect though its answer is lost, or takes effect late, when its
client has given it up. Sessions end with their client, or, within a transaction, five seconds after
they have heard the last of it; a failover ends them all, and may take back the last commits.

What it can't show: transactions that write run one after the other, so neither locks nor snapshots
of two that overlap; nor vacuum, partitions, types and plans of PostgreSQL's. Its tests do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
from psycopg import OperationalError, errors

from pushgrid.testing.memory import START
from shared.adapters.sql.database import micros
from shared.adapters.sql.migrations import migrations
from shared.adapters.sql.postgres.transaction import LOCKED_MS
from tests.simulation.kernel import Kernel, Process, Strand
from tests.simulation.leased_ledger import LeasedLedger
from tests.simulation.mirror import Draw, Fate, Mirror, StormHere
from tests.simulation.plan import GIVES_UP
from tests.simulation.postgres_connection import Connection, Cursor
from tests.simulation.postgres_session import IDLE, TABLES, Session
from tests.simulation.rows import Change
from tests.simulation.storage import USUAL, Storm

LOCKED = LOCKED_MS / 1000  # seconds
LATEST = 120.0  # seconds until what was sent takes effect
VANISHES = 0.4  # of the killed: the server is told nothing
IN_TIME = 0.6  # of the commits whose answer is lost
EXECUTED = 0.5  # of what a killed process has sent
_LOST, _UNKNOWN, _LATE, _DOUBTED = "is lost", "is stored", "comes late", "is doubted"
_READ_ONLY, _AWAY = "is read-only", "is away"


@dataclass(slots=True, kw_only=True)
class _Fate(Fate):
    kind: str = ""  # of a fault; empty: none
    late: float = 0.0  # seconds until what was sent takes effect, if it does so late


def _is_slow(draw: Draw) -> _Fate:
    return _Fate(before=draw() * GIVES_UP / 2, after=draw() * GIVES_UP / 2)


def _is_late(draw: Draw) -> _Fate:
    return _Fate(before=draw() * GIVES_UP, kind=_LATE, late=draw() ** 2 * LATEST)


def _unknown(draw: Draw) -> _Fate:
    if draw() < IN_TIME:
        return _Fate(before=draw(), after=draw(), kind=_UNKNOWN)
    return _Fate(before=draw(), kind=_LATE, late=draw() * LOCKED)


def _only(kind: str, before: float = 1.0) -> Callable[[Draw], _Fate]:
    return lambda draw: _Fate(before=draw() * before, kind=kind)


#: What the plan's storms are here.
STORMS = {
    "slow": StormHere("is slow", _is_slow, 0.2),
    "takes effect late": StormHere(_LATE, _is_late, 0.2, ("COMMIT",)),
    "fails before": StormHere(_LOST, _only(_LOST), 0.2),
    "fails after": StormHere(f"{_UNKNOWN}, unheard", _unknown, 0.1, ("COMMIT",)),
    "stored twice": StormHere(_DOUBTED, _only(_DOUBTED, USUAL), 0, ("COMMIT",), hits_writer=True),
    "outage": StormHere(_AWAY, _only(_AWAY), 1),
    "untimed": StormHere(_READ_ONLY, _only(_READ_ONLY, USUAL), 1, hits_writer=True),
}


class PlayedPostgres(Mirror[_Fate]):
    """The server in *folder*, and the faults of it and of what leads to it."""

    storms_here, usual, yields = STORMS, _Fate, 0.05
    _ledger: LeasedLedger

    def __init__(
        self,
        folder: Path,
        kernel: Kernel,
        ledger: LeasedLedger,
        storms: Sequence[Storm],
        *given: Any,
    ) -> None:
        super().__init__(kernel, ledger, storms, *given)
        ledger.was_away = self._was_away
        self._file = str(folder / "database")
        outages = [each for each in storms if each.kind == "outage"]
        self._aways: list[tuple[Process | None, float, float]] = [  # for whom, if for one alone
            (None, each.since, each.until) for each in outages
        ]
        self._away_until = 0.0
        self._cut_off: dict[Process, float] = {}  # and until when
        self._timeline = 1
        self._sessions: list[Session] = []
        self.writer: Session | None = None  # that has a transaction which writes
        self._waiting: list[Strand] = []  # for it
        self._standby: apsw.Connection | None = None  # that lags behind
        self._behind: list[tuple[Process, Sequence[Change]]] = []  # by these commits
        self._admin = self._opened()
        self._admin.pragma("journal_mode", "WAL")
        for each in migrations("sqlite"):
            for statement in each.statements:
                self._admin.execute(statement)
            row = each.number, each.oldest, each.program
            self._admin.execute("INSERT INTO migrations VALUES (?, ?, ?)", row)
        for table in TABLES:
            self._admin.execute(table)

    @property
    def timeline(self) -> str:
        return f"{self._timeline:08X}"

    def connect(self, process: Process, **_: object) -> Connection:
        """Do as `psycopg.connect`, for a process."""
        if self.kernel.current and self._fate(process, stores=False, is_write=True).kind == _AWAY:
            self.kernel.sleep(self.chance.random())
            raise OperationalError("connection failed: Connection refused")
        session = Session(self, process, self._opened())
        self._sessions.append(session)
        return Connection(self, session)

    def cut_off(self, process: Process, seconds: float) -> None:
        """Let a process alone not reach the server."""
        self.seen["cut off alone"] += 1
        self._cut_off[process] = self.kernel.now + seconds
        self._aways.append((process, self.kernel.now, self._cut_off[process]))

    def _was_away(self, process: Process, since: float, seconds: float) -> bool:
        now = self.kernel.now
        return any(
            whose in (None, process) and min(until, now) - max(at, since) > seconds
            for whose, at, until in self._aways
        )

    def left(self, process: Process) -> None:
        """Notice that a process is gone; if its machine is, only by its silence."""
        vanishes = self.chance.random() < VANISHES
        for each in [*self._sessions]:
            if each.process is process and each.has_no_more:
                if vanishes and each.writes:
                    self.seen["a machine vanishes in a transaction"] += 1
                else:
                    each.end()

    def close(self) -> None:
        for each in [*self._sessions]:
            each.end()
        self._admin.close()

    # ── Failovers ──

    def lag(self) -> None:
        """Let the standby have no more commits than there are."""
        self._standby, self._behind = apsw.Connection(":memory:"), []
        with self._standby.backup("main", self._admin, "main") as copy:
            while not copy.done:
                copy.step(-1)

    def fail_over(self, away: float) -> None:
        """Let the standby be the server, after so many seconds; what it has not got is lost."""
        for each in [*self._sessions]:
            each.end()
        self._timeline += 1
        self._away_until = self.kernel.now + away
        self._aways.append((None, self.kernel.now, self._away_until))
        self.seen["fails over"] += 1
        if self._standby:
            self.seen["fails over, and loses commits"] += bool(self._behind)
            with self._admin.backup("main", self._standby, "main") as copy:
                while not copy.done:
                    copy.step(-1)
            for _, changes in reversed(self._behind):
                self._keep([Change(each.table, each.new, each.old) for each in reversed(changes)])
            lost, self._standby, self._behind = self._behind, None, []
            self._ledger.undone(lost)
        self._ledger.failed_over()

    def stored(self, process: Process, changes: Sequence[Change]) -> None:
        if self._standby:
            self._behind.append((process, changes))
        self._keep(changes)
        self._tell(process, changes)

    # ── Round trips ──

    def request(self, connection: Connection, sent: Sequence[Cursor]) -> None:
        """Do what was sent together, or not."""
        session, kernel = connection.session, self.kernel
        if kernel.current is None:  # nobody is asking: all is over
            session.run(sent)
            return
        process, is_write = session.process, session.writes or sent[0].writes
        aims = session.aims(sent)
        fate = self._fate(process, stores="COMMIT" in aims, is_write=is_write)
        if self._is_struck(process, aims, "before"):
            if self.chance.random() < EXECUTED:
                session.client_left()
                self._run_at(session, sent, self.chance.random() ** 4 * LATEST)
            self._kill(process, "before", aims)
        began = kernel.now
        connection.pause(fate.before)
        self._do(connection, sent, fate)
        if self._is_struck(process, aims, "after"):
            self._kill(process, "after", aims)
        connection.pause(fate.after)
        if self._note_slow(process, began, sent[-1].text[:40]):
            self.seen["postgres is slow"] += 1
        if fate.kind == _UNKNOWN:
            connection.lose()

    def _do(self, connection: Connection, sent: Sequence[Cursor], fate: _Fate) -> None:
        session = connection.session
        if fate.kind:
            self._fault(session.process, f"has no answer to {sent[-1].text[:40]}: it {fate.kind}")
            self.seen[f"postgres {fate.kind}"] += 1
        if fate.kind in (_LOST, _AWAY):
            session.end()
            connection.lose()
        if fate.kind == _LATE:
            session.client_left()
            self._run_at(session, sent, fate.late)
            connection.lose()
        session.is_read_only = fate.kind == _READ_ONLY
        if fate.kind == _DOUBTED:
            connection.warn()
        session.run(sent)

    def _run_at(self, session: Session, sent: Sequence[Cursor], seconds: float) -> None:
        """Run later what is under way, unless a failover, or its own silence, ends its session."""
        at = self.kernel.now + seconds

        def run() -> None:
            if not session.is_open or (session.writes and session.is_idle_too_long):
                session.end()
            elif self.writer not in (None, session) and self.kernel.now < at + LOCKED:
                self.kernel.at(self.kernel.now + 0.1, run)
            else:
                self.seen["late, and takes effect"] += seconds > IDLE
                with suppress(errors.Error):
                    session.run(sent)
                session.end()

        self.kernel.at(at, run)

    def _fate(self, process: Process, *, stores: bool, is_write: bool) -> _Fate:
        if self.kernel.now < max(self._away_until, self._cut_off.get(process, 0.0)):
            return _Fate(kind=_AWAY)
        fate = self._by_storm("COMMIT" if stores else "", is_write=is_write)
        return fate or self._without_fault(stores=stores)

    # ── Sessions ──

    def take_turn(self, session: Session) -> None:
        """Wait until no other transaction writes, as for a lock that it holds."""
        kernel = self.kernel
        until = kernel.now + LOCKED
        while (writer := self.writer) is not None:
            if writer.is_idle_too_long:
                self.seen["ended for its silence"] += 1
                writer.end()
            elif kernel.now >= until or kernel.current is None:
                self.seen["a lock is not had"] += 1
                raise errors.LockNotAvailable("canceling statement due to lock timeout")
            else:
                self._waiting.append(strand := kernel.current)
                ends = min(until, max(writer.heard_at + IDLE, kernel.now + 0.01))
                kernel.wait(lambda: strand not in self._waiting, ends)
            if not session.is_open:
                raise OperationalError("server closed the connection unexpectedly")
        self.writer = session

    def give_turn(self) -> None:
        self.writer = None
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self.kernel.ready(each)

    def forget(self, session: Session) -> None:
        self._sessions.remove(session)

    def _opened(self) -> apsw.Connection:
        opened = apsw.Connection(self._file)
        opened.pragma("synchronous", "OFF")
        opened.create_scalar_function("micros_now", self._micros, 0)
        return opened

    def _micros(self, *_: object) -> int:
        return micros(START + timedelta(seconds=self.kernel.now))
