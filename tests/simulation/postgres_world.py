"""Plays several `pushgrid serve` on one database of PostgreSQL's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any

from server.home import Home
from server.leased_pusher import LeasedPusher
from server.postgres_home import PostgresHome
from server.store_url import PostgresOptions
from shared.adapters.sql.postgres.connecting import Connecting
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.postgres.store import PostgresStore
from shared.engine.ports import DeadLetters, Pusher
from shared.settings import Settings
from shared.watched_clock import WatchedClock
from tests.simulation.kernel import Process, Threads
from tests.simulation.leased_ledger import LeasedLedger
from tests.simulation.postgres_server import PlayedPostgres
from tests.simulation.processes import Death
from tests.simulation.served import ServedProcesses, ServedWorld

LOOK_EVERY = 8.0  # seconds: rarer than in fact, as it is most of what idle servers do
AIMS = (
    *("a claim", "a settlement", "a settlement", "a birth", "a new number", "a judgement"),
    *("COMMIT", ""),
)


class PlayedServers(ServedProcesses):
    """Two or three servers, which lose their machines, but never a database."""

    aims = AIMS
    machine: PlayedPostgres

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._homes: dict[Process, PostgresHome] = {}

    def jump(self, process: int, by: float) -> None:
        """Set the wall clock of a machine: its server goes by the database's time."""
        instance = self.slots[process % len(self.slots)]
        self._seen["a clock jumps"] += 1
        instance.skew[0] += by

    def end(self, process: int, down: float) -> None:
        """Tell a server to end."""
        if self._hears(process):
            self._tell_to_end(process, Death(10**9, down, 0, 0))

    def cut_off(self, process: int, seconds: float) -> None:
        """Let one server alone not reach the database."""
        instance = self.slots[process]
        if instance.process.is_alive:
            self.ledger.fault(instance.process, f"is cut off for {seconds} s")
            self.machine.cut_off(instance.process, seconds)

    def fail_over(self, lag: float, away: float) -> None:
        """Let a standby be the primary; of the last seconds it has nothing."""
        if lag:
            self.machine.lag()
        self._kernel.at(self._kernel.now + lag, lambda: self.machine.fail_over(away))

    def _leave(self, process: Process, *, loses_power: bool) -> None:
        del loses_power
        self.ledger.died(process)
        self.machine.left(process)

    def _wall(self, skew: list[float]) -> Callable[[], datetime]:
        right = self.storage.clock.now
        return lambda: right() + timedelta(seconds=skew[0])

    def _home(
        self, process: Process, settings: Settings, clock: WatchedClock, elsewhere: DeadLetters
    ) -> Home:
        ids = Random(f"ids {process.name} {self._plan.seed}")

        def new_id() -> str:
            return ids.randbytes(16).hex()

        def make_database(_: Connecting, threads: Threads, **options: Any) -> PostgresDatabase:
            connecting = Connecting(
                {},
                seconds=process.loop.time,
                chance=ids.random,
                connect=lambda **_: self.machine.connect(process),  # type: ignore[arg-type]
            )
            return PostgresDatabase(
                connecting,
                threads,
                **options,
                boottime=process.loop.time,
                draw=ids.getrandbits,
                new_id=new_id,
            )

        def make_store(database: PostgresDatabase, **options: Any) -> PostgresStore:
            given = options | {"other_accounts": elsewhere}
            return PostgresStore(database, **given, new_id=new_id, look_every=LOOK_EVERY)

        home = self._homes[process] = PostgresHome(
            PostgresOptions({}),
            settings,
            clock,
            Threads(process),
            make_database=make_database,
            make_store=make_store,
        )
        return home

    def _pusher(self, process: Process) -> Pusher:
        home = self._homes[process]
        return LeasedPusher(super()._pusher(process), lambda: home.has_lease)


class PostgresWorld(ServedWorld):
    """All that there is in a simulation of several servers."""

    make_ledger, make_processes, make_machine = LeasedLedger, PlayedServers, PlayedPostgres
    unused = ("ports",)

    def _unfinished(self) -> Mapping[Any, Any]:
        """Return nothing where commits were lost: what they had counts as matched."""
        return {} if self._seen["fails over, and loses commits"] else super()._unfinished()
