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

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import apsw
from psycopg import OperationalError, ProgrammingError, errors

from pushgrid.testing.memory import START
from shared.adapters.sql.database import micros
from shared.adapters.sql.dialects import POSTGRESQL, SQLITE
from shared.adapters.sql.migrations import migrations
from shared.adapters.sql.postgres.schema import STATEMENTS
from shared.adapters.sql.postgres.transaction import MICROS
from tests.simulation.kernel import Kernel, Process, Strand
from tests.simulation.leased_ledger import LeasedLedger
from tests.simulation.ledger import SLOW
from tests.simulation.machine import Mirror
from tests.simulation.plan import GIVES_UP
from tests.simulation.rows import Change, Row, changes_of
from tests.simulation.storage import USUAL, Storm

LOCKED = 3.0  # seconds: `lock_timeout`
IDLE = 5.0  # seconds: `idle_in_transaction_session_timeout`
LATEST = 120.0  # seconds until what was sent takes effect
VANISHES = 0.4  # of the killed: the server is told nothing
IN_TIME = 0.6  # of the commits whose answer is lost
EXECUTED = 0.5  # of what a killed process has sent
YIELDS = 0.05  # of the round trips that store nothing: they take a moment
_TABLES = """
CREATE TABLE processes (
  id INTEGER PRIMARY KEY, number INTEGER NOT NULL, renewals INTEGER NOT NULL,
  start INTEGER NOT NULL, timeline TEXT NOT NULL, dead INTEGER NOT NULL DEFAULT FALSE,
  judged INTEGER
) STRICT;
CREATE TABLE attempt_days (day INTEGER PRIMARY KEY) STRICT;
"""
#: What a transaction does, by the beginning of a statement that it has then.
_TASKS = {
    "UPDATE messages SET run = $1, parked": "a claim",
    "SELECT counts FROM messages WHERE id = $1 AND run = $2": "a settlement",
    "INSERT INTO messages": "a birth",
    "UPDATE processes SET renewals": "a renewal",
    "UPDATE processes SET dead": "a judgement",
    "UPDATE processes SET number": "a new number",
}
_ATTEMPT = "topic, subscription, hour, system_id, number, ends, event_id, made, replay_of, record"
_VALUES = ", ".join(
    f"column{place} AS {name}" for place, name in enumerate(f"{_ATTEMPT}, event".split(", "), 1)
)
_WORDS: Sequence[tuple[str, str]] = (  # what SQLite says otherwise
    (r" FOR (UPDATE|SHARE)( OF \w+)?( SKIP LOCKED)?", ""),
    (r"= ANY\((\$\d+)\)", r"IN (SELECT value FROM json_each(\1))"),
    (re.escape(MICROS), "micros_now()"),
    (re.escape(POSTGRESQL.counts), SQLITE.counts),
    (r"CAST\(event AS BYTEA\) FROM \(VALUES ", f"event FROM (SELECT {_VALUES} FROM (VALUES "),  # noqa: S608 - ours
    (re.escape(f") AS found ({_ATTEMPT}, event)"), ")) AS found"),
    (r"\$(\d+)", r"?\1"),
)
_TIMELINE = re.escape("substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)")
(_FUNCTION,) = (each for each in STATEMENTS[1] if "FUNCTION hold" in each)
#: What the function asks, by its own text.
_HOLD = "SELECT 1 " + re.sub(
    r"\b(wanted(_number)?)\b",
    r":\1",
    re.sub(_TIMELINE, ":timeline", _FUNCTION.partition("SELECT ")[2].partition(") THEN")[0]),
)
_DAY = re.compile(r"attempts_(\d{8})")


class LostProcess(errors.RaiseException):
    """As `hold` raises it."""

    sqlstate = "PG001"


class _Fate(NamedTuple):
    """What becomes of a round trip."""

    before: float = 0.0  # seconds
    after: float = 0.0
    kind: str = ""  # of a fault; empty: none
    late: float = 0.0  # seconds until what was sent takes effect, if it does so late


_LOST, _UNKNOWN, _LATE, _DOUBTED = "is lost", "is stored", "comes late", "is doubted"
_READ_ONLY, _AWAY = "is read-only", "is away"


class _Storm(NamedTuple):
    """What a storm is here."""

    fate: Callable[[Callable[[], float]], _Fate]
    share: float  # of the round trips that it would hit there
    commits: bool = False  # are hit at any rate
    writes: bool = False  # alone are hit


def _unknown(draw: Callable[[], float]) -> _Fate:
    if draw() < IN_TIME:
        return _Fate(draw(), draw(), _UNKNOWN)
    return _Fate(draw(), kind=_LATE, late=draw() * LOCKED)


STORMS = {
    "slow": _Storm(lambda draw: _Fate(draw() * GIVES_UP / 2, draw() * GIVES_UP / 2), 0.2),
    "takes effect late": _Storm(
        lambda draw: _Fate(draw() * GIVES_UP, kind=_LATE, late=draw() ** 2 * LATEST),
        share=0.2,
        commits=True,
    ),
    "fails before": _Storm(lambda draw: _Fate(draw(), kind=_LOST), 0.2),
    "fails after": _Storm(_unknown, 0.1, commits=True),
    "stored twice": _Storm(
        lambda draw: _Fate(draw() * USUAL, kind=_DOUBTED), 0, commits=True, writes=True
    ),
    "outage": _Storm(lambda draw: _Fate(draw(), kind=_AWAY), 1),
    "untimed": _Storm(lambda draw: _Fate(draw() * USUAL, kind=_READ_ONLY), 1, writes=True),
}


class Server(Mirror):
    """
    The server of the database, and the way to it; *ledger* hears of faults.

    *is_struck* counts a round trip, and tells whether its process is to be killed now, by *die*.
    """

    def __init__(
        self,
        kernel: Kernel,
        ledger: LeasedLedger,
        storms: Sequence[Storm],
        chance: Random,
        seen: Counter[str],
        folder: Path,
        is_struck: Callable[[Process, Collection[str], str], bool],
        die: Callable[[Process, str], object],
    ) -> None:
        super().__init__(kernel, ledger)
        self._ledger: LeasedLedger = ledger
        self._storms, self.chance, self.seen = storms, chance, seen
        self._is_struck, self._die = is_struck, die
        ledger.was_away = self._was_away
        self._file = str(folder / "database")
        outages = [each for each in storms if each.kind == "outage"]
        self._aways: list[tuple[Process | None, float, float]] = [  # for whom, if for one alone
            (None, each.since, each.until) for each in outages
        ]
        self._away_until = 0.0
        self._cut_off: dict[Process, float] = {}  # and until when
        self._timeline = 1
        self._sessions: list[_Session] = []
        self.writer: _Session | None = None  # that has a transaction which writes
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
        self._admin.execute(_TABLES)

    @property
    def timeline(self) -> str:
        return f"{self._timeline:08X}"

    def connect(self, process: Process, **_: object) -> Connection:
        """Do as `psycopg.connect`, for a process."""
        if self.kernel.current and self._fate(process, stores=False, is_write=True).kind == _AWAY:
            self.kernel.sleep(self.chance.random())
            raise OperationalError("connection failed: Connection refused")
        session = _Session(self, process, self._opened())
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
        if (took := kernel.now - began) > SLOW:
            self._fault(process, f"waits {took:.0f} s for {sent[-1].text[:40]}")
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

    def _run_at(self, session: _Session, sent: Sequence[Cursor], seconds: float) -> None:
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

    def _kill(self, process: Process, when: str, tasks: Collection[str]) -> None:
        named = [f"in {each}" for each in sorted(tasks)]
        self.seen.update(f"killed {each}" for each in named)
        self._die(process, " ".join((when, *named)))

    def _fate(self, process: Process, *, stores: bool, is_write: bool) -> _Fate:
        draw, now = self.chance.random, self.kernel.now
        if now < max(self._away_until, self._cut_off.get(process, 0.0)):
            return _Fate(kind=_AWAY)
        for storm in self._storms:
            if storm.since <= now < storm.until and draw() < storm.share:
                of = STORMS[storm.kind]
                is_hit = (of.commits and stores) or draw() < of.share
                if is_hit and (is_write or not of.writes):
                    return of.fate(draw)
        if stores or draw() < YIELDS:
            return _Fate(before=draw() * USUAL) if draw() < 0.5 else _Fate(after=draw() * USUAL)
        return _Fate()

    # ── Sessions ──

    def take_turn(self, session: _Session) -> None:
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

    def forget(self, session: _Session) -> None:
        self._sessions.remove(session)

    def _opened(self) -> apsw.Connection:
        opened = apsw.Connection(self._file)
        opened.pragma("synchronous", "OFF")
        opened.create_scalar_function("micros_now", self._micros, 0)
        return opened

    def _micros(self, *_: object) -> int:
        return micros(START + timedelta(seconds=self.kernel.now))


class _Session:
    """What the server does for a connection."""

    def __init__(self, server: Server, process: Process, file: apsw.Connection) -> None:
        self._server, self.process, self._file = server, process, file
        self.is_open, self.writes, self.is_read_only = True, False, False
        self.has_no_more = True  # under way, once its client is gone
        self.heard_at = server.kernel.now
        self._tasks = set[str]()  # of the transaction
        self._is_aborted = False
        self._journal: list[Change] = []  # of the transaction
        self._part = 0  # where the savepoint's begin
        file.preupdate_hook(lambda change: self._journal.extend(changes_of(change)), id="journal")

    @property
    def is_idle_too_long(self) -> bool:
        return self._server.kernel.now >= self.heard_at + IDLE

    def aims(self, sent: Sequence[Cursor]) -> set[str]:
        """Return what the transaction does that can be aimed at, once this is sent, too."""
        if sent[0].begins:
            self._tasks = set()
        for text in (each.text for each in sent):
            self._tasks |= {task for start, task in _TASKS.items() if text.startswith(start)}
        stores = sent[-1].text == "COMMIT" and (self.writes or sent[0].writes)
        return self._tasks | ({"COMMIT"} if stores else set())

    def client_left(self) -> None:
        """Go on with what is under way, whatever becomes of its client."""
        self.has_no_more = False

    def end(self) -> None:
        """End, and undo the transaction."""
        if self.is_open:
            self.is_open = False
            self._file.close(True)
            self._leave()
            self._server.forget(self)

    def run(self, sent: Sequence[Cursor]) -> None:
        """Run statements until one fails. Raises psycopg.Error."""
        for each in sent:
            if not self.is_open:
                raise OperationalError("server closed the connection unexpectedly")
            try:
                self._run(each)
            except errors.Error:
                self._is_aborted = True
                raise
            finally:
                self.heard_at = self._server.kernel.now

    def _run(self, cursor: Cursor) -> None:
        text, verb = cursor.text, cursor.verb
        cursor.statusmessage = verb
        if self._is_aborted and verb == "COMMIT":
            text = verb = cursor.statusmessage = "ROLLBACK"
        if self._is_aborted and verb != "ROLLBACK":
            raise errors.InFailedSqlTransaction("current transaction is aborted")
        if verb == "BEGIN":
            self._begin(writes=cursor.writes)
        elif text in ("COMMIT", "ROLLBACK"):
            self._end_transaction(text)
        else:
            self._note_part(text)
            cursor.rows = self._answer(cursor)
            cursor.rowcount = len(cursor.rows or ())
            if verb in ("INSERT", "UPDATE", "DELETE"):
                cursor.rowcount = self._file.changes()

    def _begin(self, *, writes: bool) -> None:
        if writes:
            if self.is_read_only:
                raise errors.FeatureNotSupported("cannot set read-write mode during recovery")
            self._server.take_turn(self)
        self._journal = []
        self._file.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        self.writes = writes

    def _end_transaction(self, how: str) -> None:
        if self._file.in_transaction:
            self._file.execute(how)
        journal = self._journal
        self._leave()
        if how == "COMMIT" and journal:
            self._server.stored(self.process, journal)

    def _leave(self) -> None:
        self._journal, self._is_aborted, self.writes = [], False, False
        if self._server.writer is self:
            self._server.give_turn()

    def _note_part(self, text: str) -> None:
        if text.startswith("SAVEPOINT"):
            self._part = len(self._journal)
        elif text.startswith("ROLLBACK TO"):
            del self._journal[self._part :]
            self._is_aborted = False

    def _answer(self, cursor: Cursor) -> list[Row] | None:
        text, given = cursor.text, cursor.parameters
        if "hold($1, $2)" in text:
            return self._hold(*given)
        if found := _DAY.search(text):
            return self._of_day(text, found[1])
        if (known := _constant(text)) is not None:
            return known
        if text.startswith("SELECT substr(pg_walfile_name"):
            return [(self._server.timeline,)]
        if text.startswith("SET "):
            return None
        values = [json.dumps(each) if isinstance(each, list) else each for each in given]
        try:
            run = self._file.execute(_in_sqlite(text), values)
            return run.fetchall() if cursor.verb == "SELECT" or "RETURNING" in text else None
        except apsw.ConstraintError as error:
            raise errors.UniqueViolation(str(error)) from error

    def _hold(self, id_: int, number: int) -> list[Row]:
        given = {"wanted": id_, "wanted_number": number, "timeline": self._server.timeline}
        if not self._file.execute(_HOLD, given).fetchall():
            raise LostProcess(f"process {id_} is not alive any more, or has another number")
        return [(None,)]

    def _of_day(self, text: str, day: str) -> list[Row] | None:
        """Do for a partition what is asked for: its records are in the one table."""
        hours = f"strftime('%Y%m%d', hour / 1000000, 'unixepoch') = '{day}'"
        if text.startswith("DROP"):
            self._file.execute(f"DELETE FROM attempts WHERE {hours}")  # noqa: S608 - ours
        if not text.startswith("SELECT"):
            return None
        return self._file.execute(
            f"SELECT EXISTS (SELECT 1 FROM attempts WHERE {hours})"  # noqa: S608 - ours
        ).fetchall()


class Cursor:
    """A statement that is sent, and what it returns."""

    __slots__ = ("_connection", "parameters", "rowcount", "rows", "statusmessage", "text")

    def __init__(self, connection: Connection, text: str, parameters: Sequence[Any]) -> None:
        self._connection, self.text, self.parameters = connection, text, parameters
        self.rows: list[Row] | None = None
        self.rowcount, self.statusmessage = -1, ""

    @property
    def verb(self) -> str:
        return self.text.partition(" ")[0]

    @property
    def begins(self) -> bool:
        return self.text.startswith("BEGIN")

    @property
    def writes(self) -> bool:
        return self.begins and "READ WRITE" in self.text

    def fetchall(self) -> list[Row]:
        self._connection.flush()
        if self.rows is None:
            raise ProgrammingError("the last operation didn't produce records")
        return self.rows

    def fetchone(self) -> Row | None:
        return next(iter(self.fetchall()), None)


class Connection:
    """What a server has of psycopg's connection."""

    adapters = SimpleNamespace(register_dumper=lambda *_: None)
    info = SimpleNamespace(server_version=160_000)

    def __init__(self, server: Server, session: _Session) -> None:
        self._server, self.session = server, session
        self.closed = False
        self._is_cut, self._is_pipeline = False, False
        self._asks: Strand | None = None
        self._pending: list[Cursor] = []
        self._handlers: list[Callable[[Any], object]] = []
        self.add_notice_handler = self._handlers.append

    def execute(self, statement: bytes | str, parameters: Sequence[Any] | None = None) -> Cursor:
        text = statement.decode() if isinstance(statement, bytes) else statement
        cursor = Cursor(self, text, parameters or ())
        self._pending.append(cursor)
        if not self._is_pipeline:
            self.flush()
        return cursor

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        self._is_pipeline = True
        try:
            yield
            self.flush()
        finally:
            self._is_pipeline, self._pending = False, []

    def flush(self) -> None:
        """Send what waits, and wait for the answer."""
        sent, self._pending = self._pending, []
        if self.closed:
            raise OperationalError("the connection is closed")
        if sent:
            try:
                self._server.request(self, sent)
            except OperationalError as error:
                self.closed = self.closed or not error.sqlstate
                raise

    def pause(self, seconds: float) -> None:
        """Wait for the answer, unless the connection is cut."""
        kernel = self._server.kernel
        if seconds:
            self._asks = kernel.current
            kernel.wait(lambda: self._is_cut, kernel.now + seconds)
        if self._is_cut or not self.session.is_open:
            self.lose()

    def lose(self) -> None:
        """Raises OperationalError: the connection has ended."""
        self.close()
        raise OperationalError("server closed the connection unexpectedly")

    def warn(self) -> None:
        said = SimpleNamespace(sqlstate="01000", severity_nonlocalized="WARNING")
        for each in self._handlers:
            each(said)

    def fileno(self) -> int:
        """Be cut: nobody else asks for this."""
        self._server.seen["a connection is cut that hangs"] += 1
        self._is_cut = True
        if self._asks:
            self._server.kernel.ready(self._asks)
        raise OperationalError("simulated")

    def close(self) -> None:
        self.closed = True
        if self.session.has_no_more:
            self.session.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@cache
def _in_sqlite(text: str) -> str:
    for old, new in _WORDS:
        text = re.sub(old, new, text)
    return text


@cache
def _constant(text: str) -> list[Row] | None:
    """Return what a statement answers whatever is stored; ``None``: it depends."""
    if "pg_advisory_xact_lock" in text or text.startswith("SELECT set_config"):
        return [(None,)]
    known: dict[str, list[Row]] = {
        "SHOW synchronous_commit": [("on",)],
        "SELECT 1 FROM pg_namespace WHERE nspname = $1": [(1,)],
        "SELECT to_regclass('migrations')": [("migrations",)],
        "SELECT pg_total_relation_size(to_regclass($1))": [(0,)],
    }
    return known.get(text)
