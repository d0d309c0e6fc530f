"""What PostgreSQL does for a connection, played by SQLite in a few words of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import apsw
from psycopg import OperationalError, errors

from shared.adapters.sql.dialects import POSTGRESQL, SQLITE
from shared.adapters.sql.postgres.connecting import ASK_SETTINGS
from shared.adapters.sql.postgres.schema import STATEMENTS
from shared.adapters.sql.postgres.transaction import IDLE_MS, NOT_ALIVE, NOW_MICROS
from tests.simulation.kernel import Process
from tests.simulation.rows import Change, Row, changes_of

if TYPE_CHECKING:
    from tests.simulation.postgres_connection import Cursor
    from tests.simulation.postgres_server import PlayedPostgres

IDLE = IDLE_MS / 1000  # seconds
#: What PostgreSQL alone has.
TABLES = [each.replace("BIGINT", "INTEGER") for each in STATEMENTS[1] if "CREATE TABLE" in each]
#: What a transaction does, by the beginning of a statement that it has then.
_TASKS = {
    "UPDATE messages SET run = $1, parked": "a claim",
    "SELECT counts FROM messages WHERE id = $1 AND run = $2": "a settlement",
    "INSERT INTO messages": "a birth",
    "UPDATE processes SET renewals": "a renewal",
    "UPDATE processes SET dead": "a judgement",
    "UPDATE processes SET number": "a new number",
}
(_COLUMNS,) = re.findall(r"AS found \((.*?)\)", POSTGRESQL.attempts)
_VALUES = ", ".join(
    f"column{place} AS {name}" for place, name in enumerate(_COLUMNS.split(", "), 1)
)
_WORDS: Sequence[tuple[str, str]] = (  # what SQLite says otherwise
    (r"LATERAL \(SELECT messages.id FROM messages WHERE", "messages ON"),
    (r"SELECT found.id", "SELECT messages.id"),
    (r" FOR UPDATE.*\) AS found LIMIT", " LIMIT"),
    (r" FOR (UPDATE|SHARE)( OF \w+)?( SKIP LOCKED)?", ""),
    (r"= ANY\(ARRAY(\(.*\))\)", r"IN \1"),
    (r"= ANY\((\$\d+)\)", r"IN (SELECT value FROM json_each(\1))"),
    (re.escape(NOW_MICROS), "micros_now()"),
    (re.escape(POSTGRESQL.counts), SQLITE.counts),
    (r"CAST\(event AS BYTEA\) FROM \(VALUES ", f"event FROM (SELECT {_VALUES} FROM (VALUES "),  # noqa: S608 - ours
    (re.escape(f") AS found ({_COLUMNS})"), ")) AS found"),
    (r"\$(\d+)", r"?\1"),
)
(_FUNCTION,) = (each for each in STATEMENTS[1] if "FUNCTION check_alive" in each)
#: What the function asks, by its own text.
_CHECK_ALIVE = "SELECT 1 " + re.sub(
    r"\b(wanted(_number)?)\b",
    r":\1",
    re.sub(
        r"substr\(pg_walfile_name.*, 8\)",
        ":timeline",
        _FUNCTION.partition("SELECT ")[2].partition(") THEN")[0],
    ),
)
_DAY = re.compile(r"attempts_(\d{8})")


class LostProcess(errors.RaiseException):
    """As `check_alive` raises it."""

    sqlstate = NOT_ALIVE


class Session:
    """What the server does for a connection."""

    def __init__(self, server: PlayedPostgres, process: Process, file: apsw.Connection) -> None:
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
        if "check_alive($1, $2)" in text:
            return self._check_alive(*given)
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

    def _check_alive(self, id_: int, number: int) -> list[Row]:
        given = {"wanted": id_, "wanted_number": number, "timeline": self._server.timeline}
        if not self._file.execute(_CHECK_ALIVE, given).fetchall():
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


@cache
def _in_sqlite(text: str) -> str:
    for old, new in _WORDS:
        text = re.sub(old, new, text)
    return text


@cache
def _constant(text: str) -> list[Row] | None:
    """Return what a statement answers whatever is stored; ``None``: it depends."""
    if re.search("pg_advisory_xact_lock|pg_terminate_backend|^SELECT set_config", text):
        return [(None,)]
    if "has_schema_privilege" in text:
        return [(True,)]
    known: dict[str, list[Row]] = {
        ASK_SETTINGS: [("on", "on", "", False, 1)],
        "SELECT to_regclass('migrations') FROM pg_namespace LIMIT 1": [("migrations",)],
        "SELECT pg_total_relation_size(to_regclass($1))": [(0,)],
    }
    return known.get(text)
