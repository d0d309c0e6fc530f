"""
Who of several processes on one database lives.

A process says so by renewing its row; whoever sees a row unchanged for long enough marks it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from shared import telemetry
from shared.adapters.sql.database import moment
from shared.adapters.sql.dialects import OF_PROCESS
from shared.adapters.sql.group_writer import GroupWriter
from shared.adapters.sql.postgres.committer import Own, PostgresCommitter, says_lost
from shared.adapters.sql.postgres.connections import PostgresConnections
from shared.adapters.sql.postgres.transaction import MARK_DEAD, NOW_MICROS, RENEW, Transaction
from shared.engine.ports.measures import StoreMeasure
from shared.errors import StorageUnavailable

LEASE_SECONDS = 30.0  # this process's own, from the sending of a renewal
DEAD_SECONDS = 45.0  # of successful reads of a row that stays as it is
RENEWED_EVERY, OBSERVED_EVERY = 10.0, 5.0
_MISSED = 3  # reads: who has not looked for so long has seen nothing
_FORGOTTEN_AFTER = 24 * 3600 * 1_000_000  # microseconds after a judgement
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while suspended


def boottime() -> float:
    return time.clock_gettime(_CLOCK)


class DatabaseTime:
    """
    The time of the database, as it was told, and what has passed since by *elapsed* (seconds).

    So that the servers' own clocks may differ by hours.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._told = 0, 0.0  # microseconds since 1970, and when

    is_trusted = True

    def tell(self, micros: int) -> None:
        self._told = micros, self._elapsed()

    def now(self) -> datetime:
        micros, at = self._told
        return moment(micros) + timedelta(seconds=self._elapsed() - at)


class Seen(NamedTuple):
    """What was read of a process's row."""

    number: int
    renewals: int
    dead: bool
    start: int


class PostgresProcesses:
    """
    This process among all that share its database, in which *committer* commits what *writer* gets.

    *time* is told the time of the database, as *told* is, with how many seconds it took to ask.
    `found_dead` is called, from threads, when another process is found dead.
    """

    def __init__(  # noqa: PLR0913 - this is all, and most by its name
        self,
        committer: PostgresCommitter,
        writer: GroupWriter,
        connections: PostgresConnections,
        *,
        boottime: Callable[[], float],
        time: DatabaseTime,
        told: Callable[[datetime, float], object],
    ) -> None:
        self._committer = committer
        self._writer = writer
        self._connections = connections
        self._boottime = boottime
        self._time = time
        self._told = told
        self.found_dead: Callable[[], object] = lambda: None
        self._seen: dict[int, tuple[Seen, float]] = {}  # and since when a row is as it is
        self._seen_at = 0.0
        self._dead: set[int] = set()
        self.takeovers = 0

    @property
    def has_lease(self) -> bool:
        """Whether nobody else may have what is in hand: by time since a renewal was sent."""
        if self._committer.is_lost:
            return False
        return self._boottime() - self._committer.own.renewed_at < LEASE_SECONDS

    @property
    def fault(self) -> str:
        """Why this process pushes or matches nothing: it has not renewed, or not read, for long."""
        since = min(self._committer.own.renewed_at, self._seen_at)
        if (seconds := self._boottime() - since) < LEASE_SECONDS:
            return ""
        silent = f"No renewal, or no read, has succeeded for {seconds:.0f} s."
        return f"The database can't be used: {silent} {self._connections.failed}".rstrip()

    @property
    def is_elected(self) -> bool:
        """Whether this is the oldest process that is not dead."""
        alive = [seen.start for seen, _ in self._seen.values() if not seen.dead]
        return self.has_lease and bool(alive) and self._committer.own.process.start == min(alive)

    def renew(self) -> None:
        """Tell the others that this process lives, though the writer's commit takes long."""
        own, sent = self._committer.own, self._boottime()
        returned = f"{RENEW} RETURNING {NOW_MICROS}, renewals"
        try:
            ((now, renewals),) = self._connections.apart(
                lambda transaction: transaction.rows(returned, own.process.id), own.process
            )
        except StorageUnavailable as error:
            if says_lost(error.__cause__):
                self._begin_anew(own)
            raise
        if renewals <= own.renewals or self._committer.is_lost:
            self._begin_anew(own)
            return
        self._committer.renewed(own._replace(renewals=renewals, renewed_at=sent))
        self._time.tell(now)
        self._told(moment(now), self._boottime() - sent)

    def _begin_anew(self, own: Own) -> None:
        self._committer.begin_anew(own)
        self._writer.write(lambda _: None)

    def observe(self) -> None:
        """Look who lives; mark as dead who has not renewed for long enough, by our own clock."""
        rows = "SELECT id, number, renewals, dead, start FROM processes"
        try:
            found = self._connections.read(lambda reading: reading.rows(rows))
        except StorageUnavailable:
            self._seen = {}  # An outage makes nobody dead.
            raise
        now, before = self._boottime(), self._seen
        if now - self._seen_at > _MISSED * OBSERVED_EVERY:
            before = {}  # It was stopped or suspended, and perhaps all others with it.
        seen = {}
        for id_, *values in found:
            known = before.get(id_)
            of = Seen(*values)
            seen[id_] = known if known and known[0] == of else (of, now)
        self._seen, self._seen_at = seen, now
        dead = {id_ for id_, (of, _) in seen.items() if of.dead}
        if dead - self._dead:
            self.found_dead()
        self._dead = dead
        own = self._committer.own.process.id
        for id_, (of, since) in seen.items():
            if not of.dead and now - since >= DEAD_SECONDS and id_ != own:
                self._judge(id_, of)

    def end_process(self) -> None:
        """Tell the others that this process is no more, once it has handed back what it had."""
        self._writer.write(lambda writing: writing.run(MARK_DEAD, self._committer.own.process.id))

    def forget_processes(self) -> int:
        """Delete the rows of processes that were judged a day ago, and have nothing left."""
        old = (
            f"DELETE FROM processes WHERE dead AND judged < {NOW_MICROS} - ? AND NOT EXISTS ("
            f"SELECT 1 FROM messages WHERE run > 0 AND {OF_PROCESS})"
        )
        return self._writer.write(lambda writing: writing.run(old, _FORGOTTEN_AFTER))

    def _judge(self, id_: int, seen: Seen) -> None:
        """Mark a process as dead, unless its row has changed; what it has is free by that."""
        judged = f"{MARK_DEAD} AND number = ? AND renewals = ? AND NOT dead"

        def judge(transaction: Transaction) -> int:
            transaction.exclude(id_)
            return transaction.run(judged, id_, seen.number, seen.renewals)

        if self._connections.apart(judge):
            self.takeovers += 1
            telemetry.warning("process.judged_dead", process=id_)
            self.found_dead()

    @property
    def work(self) -> Sequence[tuple[float, Callable[[], None]]]:
        """What is to be done now and then: after how many seconds, and what."""
        return (RENEWED_EVERY, self.renew), (OBSERVED_EVERY, self.observe)

    def measures(self) -> list[StoreMeasure]:
        """Return figures of the processes."""
        alive = sum(not seen.dead for seen, _ in self._seen.values())
        return [
            StoreMeasure("processes", "Servers that live.", alive),
            StoreMeasure(
                "lease_age_seconds",
                f"Since this server said that it lives; from {LEASE_SECONDS:.0f} on it pushes "
                "nothing.",
                self._boottime() - self._committer.own.renewed_at,
            ),
            StoreMeasure(
                "takeovers_total",
                "Servers that this one has found dead.",
                self.takeovers,
                only_rises=True,
            ),
        ]
