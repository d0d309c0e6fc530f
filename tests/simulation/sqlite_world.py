"""Plays one `pushgrid serve` on SQLite, which is killed and started again."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from server.home import Home
from server.sqlite_home import SqliteHome
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.engine.ports import DeadLetters
from shared.settings import Settings
from shared.watched_clock import WatchedClock
from tests.simulation.kernel import Process, Threads
from tests.simulation.plan import Plan, Step
from tests.simulation.served import ServedProcesses, ServedWorld
from tests.simulation.sqlite_machine import Machine


class SqliteProcesses(ServedProcesses):
    """Processes that serve: one at a time, on one machine."""

    aims = ("a claim", "a settlement", "a settlement", "COMMIT", "")
    machine: Machine

    def __init__(self, plan: Plan, *given: Any) -> None:
        super().__init__(plan._replace(processes=1), *given)

    def jump(self, process: int, by: float) -> None:
        """Do nothing: a machine's only clock is believed."""

    def _told(self, why: str) -> str:
        return why.replace(str(self.machine.folder), "the folder")

    def _leave(self, process: Process, *, loses_power: bool) -> None:
        self._seen["the power fails"] += loses_power
        self.ledger.died(process)
        self.machine.stop(loses_power=loses_power)

    def _home(
        self, process: Process, settings: Settings, clock: WatchedClock, elsewhere: DeadLetters
    ) -> Home:
        folder = self.machine.start()
        ids = Random(f"ids {process.name} {self._plan.seed}")

        def make_store(folder: Path, **options: Any) -> SqliteStore:
            return SqliteStore(
                folder,
                **options | {"other_accounts": elsewhere},
                connect=lambda database: self.machine.connect(process, database),
                new_id=lambda: ids.randbytes(16).hex(),
                low_water=0,
            )

        return SqliteHome(folder, settings, clock, Threads(process), make_store)


class SqliteWorld(ServedWorld):
    """All that there is in a simulation of a server on SQLite."""

    make_processes, make_machine = SqliteProcesses, Machine
    unused = ("process", "skew")  # there is one, whose clock is right

    @classmethod
    def told(cls, step: Step) -> str:
        return "nothing" if step.what == "jump" else super().told(step)
