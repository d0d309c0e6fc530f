"""
Commits together what is written at the same time, for a process that others may judge dead.

A commit whose outcome is unknown is repeated, in one transaction with the process's next number,
before anybody gets an answer: what it has taken in hand as it stored it may be there, in nobody's
hand. No commit is ever cancelled. What must hold: docs/stores.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from secrets import randbits
from typing import Any, NamedTuple

import psycopg
from psycopg.errors import Diagnostic

from shared import telemetry
from shared.adapters.sql.database import Catalogue, Row, StoreRefused, new_id
from shared.adapters.sql.dialects import MOST_NUMBER, NUMBER_BITS
from shared.adapters.sql.group_writer import GroupWrite, WriteResult, unavailable
from shared.adapters.sql.postgres.connecting import Connecting, is_pooled
from shared.adapters.sql.postgres.schema import schema_of
from shared.adapters.sql.postgres.transaction import (
    MARK_DEAD,
    NOT_ALIVE,
    RENEW,
    Process,
    Transaction,
)
from shared.adapters.sql.tally import CountedRows
from shared.engine.ports import Threads
from shared.errors import StorageUnavailable, Unstorable

_ID_BITS = 63 - NUMBER_BITS
_TRIES = 4  # of a transaction that the server gives up for others' sake
_REPEATED_FOR = 10.0  # seconds; then it is 503
_PAUSE = 0.2
_AGAIN = ("40001", "40P01", "55P03")  # serialization, deadlock, lock timeout
_READ_ONLY = ("0A000", "25006")  # as BEGIN says it on a standby; by a setting
_TOO_LARGE = ("54000", "22021")  # limits of the program; characters that it can't have
_NOT_REPLICATED = "01000"  # a warning's, if somebody cancels the wait for a standby


class Own(NamedTuple):
    """What a process knows of its own row."""

    process: Process
    renewals: int  # at least: a lower number is there after a restore to an earlier point
    renewed_at: float  # when the last renewal was sent


class _LostProcess(Exception):
    """The process was judged dead, or the server has another history."""


class _UnknownOutcome(Exception):
    """The commit was sent, and its answer is missing."""


class PostgresCommitter:
    """
    Committer on one connection.

    *in_hand* returns the numbers of the messages in hand. *lost* forgets them, before the process
    has a lease under another id; both may raise StorageUnavailable. *draw* returns a number of so
    many bits that nobody can guess, *new_id* 32 hexadecimal digits that nothing else has.

    Raises:
        StoreRefused: the database can't be used.
    """

    def __init__(  # noqa: PLR0913 - this is all, and each by its name
        self,
        connecting: Connecting,
        schema: str,
        threads: Threads,
        *,
        boottime: Callable[[], float],
        in_hand: Callable[[], Collection[int]],
        lost: Callable[[], object],
        draw: Callable[[int], int] = randbits,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        self._connecting = connecting
        self._schema = schema
        self._boottime = boottime
        self._in_hand = in_hand
        self._lost = lost
        self._draw = draw
        self._monotonic, self._sleep = threads.monotonic, threads.sleep
        self.connection: psycopg.Connection[Any] | None = None  # for whoever cuts it
        self._needs_number = False  # before it writes again
        self.is_lost = False  # until it is another process, with nothing in hand
        self._is_unreplicated = False
        self._counted = CountedRows(new_id())
        self.busy_since: float | None = None  # with a transaction
        self.fault = ""
        self.commits, self.commit_seconds = 0, 0.0
        self._changing = threads.lock()  # `own`, also by whoever renews
        try:
            self.own = self._register()
        except psycopg.Error as error:
            raise connecting.refusal(error) from None
        self.busy_since = None

    def tidy(self) -> None:
        """Nothing is due after a commit."""

    def renewed(self, own: Own) -> None:
        """Note a renewal, unless it was of a process that this one is no more."""
        with self._changing:
            if own.process.id == self.own.process.id:
                renewals = max(own.renewals, self.own.renewals)
                at = max(own.renewed_at, self.own.renewed_at)
                self.own = self.own._replace(renewals=renewals, renewed_at=at)

    def begin_anew(self, own: Own) -> None:
        """Begin anew with the next write, if the process is as it was."""
        with self._changing:
            is_same = own.process == self.own.process and not self._needs_number
            self.is_lost = self.is_lost or is_same

    # ── A group ──

    def commit(self, group: Sequence[GroupWrite]) -> Sequence[WriteResult]:
        change = [each for each in group if each.options.catalogue is Catalogue.EXCLUSIVE]
        if not change or len(change) == len(group):
            return self._commit_group(group)
        # Whoever changes the catalogue holds nothing else.
        of = dict(zip(map(id, change), self._commit_group(change), strict=True))
        rest = [each for each in group if id(each) not in of]
        of |= zip(map(id, rest), self._commit_group(rest), strict=True)
        return [of[id(each)] for each in group]

    def _commit_group(self, group: Sequence[GroupWrite]) -> Sequence[WriteResult]:
        try:
            results = self._known(group)
        except (psycopg.Error, StorageUnavailable, _LostProcess, StoreRefused) as error:
            text = Connecting.detail(error) if isinstance(error, psycopg.Error) else error
            name = type(error).__name__
            telemetry.error("storage.failed", error=name, detail=f"{name}: {text}")
            self.fault = self._said(error)
            return [WriteResult(error=unavailable(error)) for _ in group]
        finally:
            self.busy_since = None
        return results

    def _said(self, error: Exception) -> str:
        """Say for readiness why nothing can be stored, and what to do."""
        if isinstance(error, StoreRefused):
            return str(error)
        why = self._connecting.said(error) if isinstance(error, psycopg.Error) else str(error)
        return f"The database can't be used: {why}"

    def _known(self, group: Sequence[GroupWrite]) -> Sequence[WriteResult]:
        """Run a group until it is known what is stored."""
        is_careful = False
        for left in reversed(range(_TRIES)):
            was_open = self.connection is not None
            try:
                self._be_alive()
                results = self._transact(group, is_careful=is_careful)
            except _UnknownOutcome as error:
                return self._repeat(group, error)
            except _LostProcess:
                self.is_lost = True  # nothing was stored: it is all done by the next one
            except psycopg.Error as error:
                is_cut = self.connection is None
                # A connection that had ended before, or others were first.
                is_again = (is_cut and was_open) or error.sqlstate in _AGAIN
                is_final = is_careful or is_cut or is_pooled(error)
                if not left or (is_final and not is_again):
                    raise
                is_careful = is_careful or not is_again
            else:
                if results is not None:
                    return results
                is_careful = True
        raise StorageUnavailable("the transaction was given up again and again")

    def _transact(
        self, group: Sequence[GroupWrite], *, is_careful: bool
    ) -> Sequence[WriteResult] | None:
        """
        Run a group in one transaction; ``None``: one was refused that has written something.

        Raises:
            _UnknownOutcome: it may be stored.
            _LostProcess, psycopg.Error: it is not.
        """
        connection, catalogue = self._open(), max(each.options.catalogue for each in group)
        is_sent, began = False, self._monotonic()
        try:
            with nullcontext() if is_careful else connection.pipeline():
                transaction = Transaction(connection, self._schema)
                transaction.begin(self.own.process, catalogue)
                results = [
                    self._execute(transaction, each, is_careful=is_careful) for each in group
                ]
                if any(each is None for each in results):
                    transaction.execute("ROLLBACK")
                    return None
                self._write_counts(transaction)
                if self.fault:  # It is over once something is stored: what writes nothing succeeds.
                    transaction.send(RENEW, self.own.process.id)
                is_sent, began = True, self._monotonic()
                committed = transaction.execute("COMMIT")
        except psycopg.Error as error:
            self._rolled_back(error, is_sent=is_sent)
            raise
        self._note_commit(committed, began)
        return [each for each in results if each is not None]

    def _execute(
        self, transaction: Transaction, write: GroupWrite, *, is_careful: bool
    ) -> WriteResult | None:
        """Run a write; ``None``: it was refused, and has to be undone."""
        if is_careful:
            return self._run_apart(transaction, write)
        before = transaction.changes
        try:
            return WriteResult(write.call(transaction))
        except psycopg.Error:
            raise
        except Exception as error:  # noqa: BLE001 - its caller gets it
            return None if transaction.changes != before else WriteResult(error=error)

    @staticmethod
    def _run_apart(transaction: Transaction, write: GroupWrite) -> WriteResult:
        """Run a write in a savepoint; what a refused one has written is undone."""
        transaction.execute("SAVEPOINT one")
        error: BaseException
        try:
            result = WriteResult(write.call(transaction))
        except psycopg.Error as fault:
            is_connections = _is_cut(fault) or is_pooled(fault)
            if is_connections or fault.sqlstate in (*_AGAIN, NOT_ALIVE, *_READ_ONLY):
                raise
            error = Unstorable() if fault.sqlstate in _TOO_LARGE else StorageUnavailable(str(fault))
            error.__cause__ = fault
        except Exception as fault:  # noqa: BLE001 - its caller gets it
            error = fault
        else:
            transaction.execute("RELEASE SAVEPOINT one")
            return result
        transaction.execute("ROLLBACK TO SAVEPOINT one")
        transaction.execute("RELEASE SAVEPOINT one")
        return WriteResult(error=error)

    def _write_counts(self, transaction: Transaction) -> None:
        for each in transaction.counted:
            self._counted.add(each)
        self._counted.write(transaction)

    def _rolled_back(self, error: psycopg.Error, *, is_sent: bool) -> None:
        """Bring the connection in order after *error*, and say what it means."""
        self._counted.forget()
        connection = self.connection
        is_broken = connection is None or connection.closed or _is_cut(error)
        if not is_broken and connection:
            try:
                connection.execute("ROLLBACK")
            except psycopg.Error:
                is_broken = True
        if is_broken or error.sqlstate in _READ_ONLY:
            self.close()
        if error.sqlstate == NOT_ALIVE:
            raise _LostProcess from error
        if is_broken and is_sent:
            raise _UnknownOutcome(str(error)) from error

    def _note_commit(self, committed: psycopg.Cursor[Any], began: float) -> None:
        self.commits += 1
        self.commit_seconds += self._monotonic() - began
        doubt = ""
        if committed.statusmessage != "COMMIT":
            doubt = f"the answer to COMMIT was {committed.statusmessage}"
        elif self._is_unreplicated:
            doubt = "the commit may not have been replicated"
        if doubt:
            self._counted.forget()
            raise _UnknownOutcome(doubt)
        self.fault = ""

    # ── After a failure ──

    def _be_alive(self) -> None:
        """See to it that this process is one, under a number whose transactions are all known."""
        if self.is_lost:
            self._lost()
            own = self._register(self.own.process)
            with self._changing:
                self.own, self.is_lost, self._needs_number = own, False, False
            telemetry.warning("process.begun_anew", process=own.process.id)
        elif self._needs_number:
            self._renumber((), ())

    def _repeat(self, group: Sequence[GroupWrite], error: _UnknownOutcome) -> Sequence[WriteResult]:
        """
        Repeat what was born in hand, under the next number.

        Nobody else is told anything but that it may be stored. What was not in hand may have been
        claimed, and ended: repeated, it would be there again.
        """
        telemetry.warning("storage.repeated", detail=str(error))
        births = [each for each in group if each.options.births]
        claims = [number for each in group for number in each.options.claims]
        give_up_at, self._needs_number = self._monotonic() + _REPEATED_FOR, True
        while True:
            try:
                of = dict(zip(map(id, births), self._renumber(births, claims), strict=True))
            except _LostProcess:
                self.is_lost, of = True, {}
                break
            except (_UnknownOutcome, psycopg.Error, StorageUnavailable) as again:
                of = {}
                self.fault = self._said(again)
                if self._monotonic() > give_up_at:
                    break
                self._sleep(_PAUSE)
            else:
                break
        return [of.get(id(each), WriteResult(error=unavailable(error))) for each in group]

    def _renumber(
        self, births: Sequence[GroupWrite], claims: Collection[int]
    ) -> Sequence[WriteResult]:
        """
        Take the next number, with what is in hand, *claims* and *births*, in one transaction.

        It always writes: a commit that writes nothing does not wait for a standby.

        Raises:
            _LostProcess: this process was judged dead.
            StorageUnavailable: nobody knows what is in hand; nothing has changed.
            _UnknownOutcome, psycopg.Error: it may have the next number.
        """
        born = [number for each in births for number in each.options.births]
        in_hand = [*self._in_hand(), *claims, *born]
        connection, former = self._open(), self.own
        is_sent, began, sent = False, self._monotonic(), self._boottime()
        try:
            transaction = Transaction(connection, self._schema, is_repeat=True)
            transaction.begin_without()
            id_ = former.process.id
            transaction.exclude(id_)
            wanted = "SELECT number, renewals, dead, timeline FROM processes WHERE id = ?"
            found = transaction.rows(wanted, id_)
            if not found or not _is_ours(former, found[0], transaction.timeline):
                transaction.execute("ROLLBACK")
                raise _LostProcess
            number, renewals = found[0][0] + 1, found[0][1] + 1
            process = former.process._replace(number=number)
            changed = "UPDATE processes SET number = ?, renewals = ? WHERE id = ?"
            transaction.send(changed, number, renewals, id_)
            transaction.send(
                "UPDATE messages SET run = ? WHERE run >= ? AND run < ? AND id = ANY(?)",
                *(process.run, id_ << NUMBER_BITS, process.run, in_hand),
            )
            self._be(former._replace(process=process))  # for the writes
            results = [self._run_apart(transaction, each) for each in births]
            self._write_counts(transaction)
            is_sent, began = True, self._monotonic()
            committed = transaction.execute("COMMIT")
        except psycopg.Error as error:
            self._be(former)
            self._rolled_back(error, is_sent=is_sent)
            raise
        self._note_commit(committed, began)
        self._be(Own(process, renewals, sent), needs_number=False)
        return results

    def _be(self, own: Own, *, needs_number: bool = True) -> None:
        with self._changing:
            self.own, self._needs_number = own, needs_number

    def _register(self, former: Process | None = None) -> Own:
        """
        Be a process that nobody knows, in place of a *former* one.

        Raises:
            StoreRefused: a newer program has come, and this one is too old for its schema.
            psycopg.Error: it can't be stored.
        """
        connection, sent = self._open(), self._boottime()
        try:
            transaction = Transaction(connection, self._schema)
            transaction.begin_without()
            if former:
                transaction.exclude(former.id)
                transaction.send(MARK_DEAD, former.id)
            ((start,),) = transaction.rows(
                "UPDATE state SET value = value + 1 WHERE name = 'run' RETURNING value"
            )
            process = Process(self._draw(_ID_BITS - 1) + 1, 1, start)
            transaction.send(
                "INSERT INTO processes (id, number, renewals, start, timeline)"
                " VALUES (?, ?, 0, ?, ?)",
                *(*process, transaction.timeline),
            )
            schema_of(transaction, self._connecting.place)  # A migration waits since the insert.
            transaction.execute("COMMIT")
        except (psycopg.Error, StoreRefused):
            self.close()
            raise
        return Own(process, 0, sent)

    def _open(self) -> psycopg.Connection[Any]:
        self._is_unreplicated = False
        if self.connection is None:
            self.connection = self._connecting.open()
            self.connection.add_notice_handler(self._hear)
        self.busy_since = self._monotonic()
        return self.connection

    def _hear(self, said: Diagnostic) -> None:
        if said.sqlstate == _NOT_REPLICATED and said.severity_nonlocalized == "WARNING":
            self._is_unreplicated = True

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection:
            # A commit may be unknown, or the database restored meanwhile.
            self._needs_number = True
            with suppress(psycopg.Error):
                connection.close()


def says_lost(error: BaseException | None) -> bool:
    """Tell whether a process was not alive any more, or had another number."""
    return isinstance(error, psycopg.Error) and error.sqlstate == NOT_ALIVE


def _is_ours(known: Own, row: Row, timeline: str) -> bool:
    """Tell whether a row is still that of the process that is *known*, whose numbers only rise."""
    number, renewals, is_dead, began_in = row
    only_rises = MOST_NUMBER > number >= known.process.number and renewals >= known.renewals
    return only_rises and not is_dead and began_in == timeline


def _is_cut(error: psycopg.Error) -> bool:
    """Tell whether *error* is the connection's, not the server's or a value's."""
    return isinstance(error, psycopg.OperationalError) and not error.sqlstate
