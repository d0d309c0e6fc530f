"""Judges several servers on one database: who may have what in hand, and push it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from server.worker import DELIVERING_SECONDS
from shared.adapters.sql.dialects import NUMBER_BITS
from shared.adapters.sql.postgres.processes import DEAD_SECONDS, LEASE_SECONDS
from shared.engine.ports import Table
from tests.simulation.kernel import Process
from tests.simulation.ledger import Push
from tests.simulation.rows import Change
from tests.simulation.served_ledger import TOLD, Key, ServedLedger

MISSED = 10.0  # seconds: whoever has not read for so long has seen nothing


class LeasedLedger(ServedLedger):
    """
    Judges by leases.

    A judgement and a failover are causes for a repeat of what was under way, as the end of a
    process is; an answer that was lost, or a late transaction, is none.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._owners: dict[int, Process] = {}  # of ids
        self._rows: dict[int, Sequence[Any]] = {}  # of processes
        self._ids: dict[Process, int] = {}  # that each has now
        self._renewed_at: dict[Process, float] = {}
        self._pushes: defaultdict[Process, list[Push]] = defaultdict(list)  # that are open
        self._ending: dict[Process, float] = {}  # since when, in order
        self._changed_at: dict[int, float] = {}  # a row of a process
        # Whether the database was away for a process, since a time, for so many seconds.
        self.was_away: Callable[[Process, float, float], bool]

    def committed(self, process: Process, changes: Sequence[Change]) -> None:
        for each in changes:
            if each.table == "processes":
                self._process(process, each)
        for each in changes:
            if each.table == "messages" and each.old and each.new:
                self._judge_taking(each.old[0], each.old[4], each.new[4])
        super().committed(process, changes)

    def fault(self, process: Process, what: str) -> None:
        if what == TOLD:
            self._ending[process] = self._kernel.now
        super().fault(process, what)

    def pushed(self, push: Push) -> None:
        super().pushed(push)
        self._pushes[push.process].append(push)

    def accepted(self, push: Push, *, is_known: bool) -> None:
        super().accepted(push, is_known=is_known)
        if is_known:
            self._pushes[push.process].remove(push)

    def failed(self, push: Push, status: int) -> None:
        super().failed(push, status)
        self._pushes[push.process].remove(push)

    def failed_over(self) -> None:
        """Enter that all begin anew: what is under way may be repeated."""
        self._all_repeated("the database fails over")

    def undone(self, commits: Sequence[tuple[Process, Sequence[Change]]]) -> None:
        """Enter that an asynchronous failover has lost commits, and what they had."""
        for process, changes in reversed(commits):
            self.note(f"a commit of {process.name} is lost: {len(changes)} rows")
            for each in reversed(changes):
                self._undo(each)

    # ── Who has what ──

    def _process(self, process: Process, change: Change) -> None:
        """Enter what becomes of a process's row."""
        old, new = change.old, change.new
        if new is None:
            self._rows.pop(change.key[0], None)
            return
        id_, number, renewals, _, _, is_dead, _ = new
        self._rows[id_] = new
        changed_at, self._changed_at[id_] = self._changed_at.get(id_, 0.0), self._kernel.now
        self.note(f"{process.name}: process {id_} {number} {renewals}{' is dead' * is_dead}")
        if old is None:
            self._owners[id_], self._ids[process] = process, id_
            self._repeated(process, sorted(self._under_way[process]), "it begins anew")
            self._renewed_at[process] = self._kernel.now
        elif is_dead and not old[5] and (judged := self._owners[id_]) is not process:
            self.seen["judged dead"] += 1
            self._ends += 1
            self._judge_judgement(process, changed_at)
            if id_ != self._ids[judged]:
                return
            self.fault(judged, f"is judged dead by {process.name}")
            self._repeated(judged, sorted(self._under_way[judged]), "it is judged dead")
        elif not is_dead and self._owners[id_] is process:
            self.seen["renumbered"] += number > old[1]
            self._renewed_at[process] = self._kernel.now

    def _judge_judgement(self, judge: Process, changed_at: float) -> None:
        """Judge whether a row has stayed as it is for long enough, and was read all the time."""
        now = self._kernel.now
        frozen_at, thawed_at = self._frozen.get(judge, (-1e9, -1e9))
        if now - changed_at < DEAD_SECONDS:
            self.find("judged early", f"its row has changed {now - changed_at:.1f} s before")
        if self.was_away(judge, now - DEAD_SECONDS, MISSED):
            self.find("judged early", "the database was away")
        if thawed_at > now - DEAD_SECONDS and thawed_at - frozen_at > 2 * MISSED:
            self.find("judged early", "its judge was frozen")

    def _judge_taking(self, message: int, old: int, new: int) -> None:
        """Judge whether what one has in hand goes to another: only what is free by definition."""
        id_, number = old >> NUMBER_BITS, old & ((1 << NUMBER_BITS) - 1)
        if not old or not new or new >> NUMBER_BITS == id_:
            return
        self.seen["taken over"] += 1
        row = self._rows.get(id_)
        if row is None or not (row[5] or number < row[1]):
            self.find("taken", f"message {message} from {self._owners[id_].name}, which has it")

    def _judge_push(self, push: Push, number: int) -> None:
        process, entry = push.process, self._of_push(push, number)
        key = entry.subscription, number, entry.job
        others = [each.name for each, of in self._under_way.items() if of[key] and each != process]
        if others:
            self.find("two at once", f"pushed while {others} has it in hand", entry)
        without = self._kernel.now - self._renewed_at[process]
        if self._rows[self._ids[process]][5] or without > LEASE_SECONDS:
            self.find("without a lease", f"pushed {without:.1f} s after a renewal", entry)
        super()._judge_push(push, number)

    def _given_back(self, process: Process, text: str) -> None:
        """Judge whether others may have a message while some of it is being pushed."""
        keys = {*self._keys_of(text)}
        pushed = [each for each in self._pushes[process] if keys & {*_keys(each)}]
        if pushed and self._kernel.now < self._ending.get(process, 1e12) + DELIVERING_SECONDS:
            told = f"{pushed[0].subscription} {pushed[0].numbers}"
            self.find("two at once", f"{told} can be had while {process.name} pushes it")
        super()._given_back(process, text)

    def _known_at(self, published: float) -> float:
        """Each publication reads whether the catalogue has changed."""
        return published

    def _all_repeated(self, why: str) -> None:
        for process, keys in self._under_way.items():
            self._repeated(process, sorted(keys), why)

    # ── What is lost ──

    def _undo(self, change: Change) -> None:
        undo: dict[str, Callable[[Change], object]] = {
            "documents": self._undo_document,
            "messages": self._undo_message,
            "message_payloads": self._undo_name,
            "processes": self._undo_process,
        }
        if call := undo.get(change.table):
            call(change)

    def _undo_document(self, change: Change) -> None:
        kind, *_ = change.key
        if change.old is None and Table(kind) is Table.REPLAYS:
            return
        self._document(self._any, change._replace(old=change.new, new=change.old))

    def _undo_message(self, change: Change) -> None:
        """Allow what was stored not to be there, and what was settled to come again."""
        for stored, is_lost in ((change.new, True), (change.old, False)):
            for key in self._keys_of(stored[10].decode()) if stored else ():
                entry = self._entry(*key)
                if is_lost and change.old is None and entry.is_promised:
                    self.seen["lost by an asynchronous failover"] += 1
                    entry.is_promised = False
                entry.copies += 1

    def _undo_name(self, change: Change) -> None:
        self._named[change.key[1]] -= (change.new is not None) - (change.old is not None)

    def _undo_process(self, change: Change) -> None:
        if change.old is None:
            self._rows.pop(change.key[0], None)
        else:
            self._rows[change.key[0]] = change.old

    @property
    def _any(self) -> Process:
        return next(iter(self._processes.values()))


def _keys(push: Push) -> Sequence[Key]:
    return [(push.subscription, number, push.job) for number in push.numbers]
