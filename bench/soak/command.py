"""Plays scenarios for some minutes, and prints one table of what became of all deliveries."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bench.load import progress
from bench.soak import (
    azurite_kills,
    azurite_outages,
    crashes,
    database_attacks,
    endings,
    faults,
    kills,
    operators,
    poison,
    server_attacks,
)
from bench.soak.azurite_deployment import Stage
from bench.soak.ledger import LedgerSums
from bench.soak.soak_deployment import AnyStage, Step
from bench.soak.state import SoakState, occurrences, read, table

FOLDER = Path(__file__).parents[2] / ".soak"


Steps = Callable[[Random], Sequence[Step[Any]]]


class SoakScenario(NamedTuple):
    """Steps on one deployment after the other."""

    stage: AnyStage[Any]
    steps: Steps
    brief: Steps | None = None  # those of the short form, if it is in


def _brief_operators(chance: Random) -> Sequence[Step[Any]]:
    """Return the steps of operators, on a deployment whose storage was stopped and started."""
    return [*azurite_outages.storage_steps(chance), *operators.steps(chance)]


#: The short ones first: the last two take most of half an hour.
_AZURITE = {
    "operators": SoakScenario(Stage(hosts=2), operators.steps),
    "storage": SoakScenario(
        Stage(is_on_disk=True), azurite_outages.storage_steps, _brief_operators
    ),
    "crashes": SoakScenario(Stage(is_on_disk=True), crashes.steps),
    "twins": SoakScenario(Stage(hosts=2), azurite_outages.twin_steps, azurite_outages.twin_steps),
    "missing": SoakScenario(Stage(), azurite_outages.missing_steps),
    "late": SoakScenario(azurite_kills.LATE_STAGE, azurite_kills.late_steps),
    "shortages": SoakScenario(
        Stage(has_names=True), azurite_outages.shortage_steps, azurite_outages.brief_shortage_steps
    ),
    "endings": SoakScenario(endings.STAGE, endings.steps, endings.steps),
    "poison": SoakScenario(poison.STAGE, poison.steps, poison.steps),
    "faults": SoakScenario(faults.STAGE, faults.steps, faults.brief_steps),
    "kill": SoakScenario(azurite_kills.STAGE, azurite_kills.steps, azurite_kills.brief_steps),
}
_SERVED = server_attacks.STAGE
_SQLITE = {
    "operators": SoakScenario(_SERVED, operators.steps, operators.steps),
    "restarts": SoakScenario(_SERVED, server_attacks.restarts, server_attacks.restarts),
    "bursts": SoakScenario(_SERVED, server_attacks.burst_steps, server_attacks.burst_steps),
    "full": SoakScenario(
        server_attacks.SMALL_DISK, server_attacks.disk_steps, server_attacks.disk_steps
    ),
    "frozen": SoakScenario(_SERVED, server_attacks.frozen_steps, server_attacks.frozen_steps),
    "outages": SoakScenario(
        _SERVED, server_attacks.outage_steps, server_attacks.brief_outage_steps
    ),
    "kill": SoakScenario(_SERVED, server_attacks.kill_steps, server_attacks.brief_kill_steps),
}
_POSTGRES = {
    "operators": SoakScenario(database_attacks.STAGE, operators.steps, operators.steps),
    "restarts": SoakScenario(database_attacks.STAGE, kills.restart_steps),
    "database": SoakScenario(
        database_attacks.STAGE,
        database_attacks.database_steps,
        database_attacks.brief_database_steps,
    ),
    "network": SoakScenario(
        database_attacks.PROXY_STAGE,
        database_attacks.network_steps,
        database_attacks.brief_network_steps,
    ),
    "shortages": SoakScenario(database_attacks.STAGE, database_attacks.shortage_steps),
    "frozen": SoakScenario(database_attacks.STAGE, database_attacks.frozen_steps),
    "long": SoakScenario(database_attacks.LONG_STAGE, database_attacks.long_frozen_steps),
    "pooled": SoakScenario(database_attacks.POOLED_STAGE, database_attacks.pooled_steps),
    "clocks": SoakScenario(database_attacks.CLOCKS_STAGE, database_attacks.clock_steps),
    "standby": SoakScenario(database_attacks.SYNCHRONOUS, database_attacks.failover_steps),
    "behind": SoakScenario(database_attacks.ASYNCHRONOUS, database_attacks.asynchronous_steps),
    "kill": SoakScenario(
        database_attacks.STAGE, database_attacks.kill_steps, database_attacks.brief_kill_steps
    ),
}
#: By what the deployment stores its events in: Azurite for the Functions app, SQLite or PostgreSQL
#: for `pushgrid serve`.
SCENARIOS: Mapping[str, Mapping[str, SoakScenario]] = {
    "azurite": _AZURITE,
    "sqlite": _SQLITE,
    "postgres": _POSTGRES,
}


@dataclass(slots=True, kw_only=True)
class Soak:
    """A run of scenarios."""

    state: SoakState
    ends_at: float
    saved: Callable[[], object] = lambda: None  # called after each step
    is_over: threading.Event = field(default_factory=threading.Event)

    def play(self, part: str, stage: AnyStage[Any], steps: Steps) -> None:
        """Play the steps of *part* that are left; the time ends it between two of them."""
        chance = Random(f"{self.state.seed} {part}")
        left = steps(chance)[self.state.done.get(part, 0) :]
        if not left or self._has_ended():
            return
        with stage.deployed(chance) as deployment:
            for step in left:
                if self._has_ended():
                    return
                row = deployment.play(step)
                self.state.add(part, row, deployment.ledger.seen)
                self.saved()
                progress(f"{part}: {_line(row)}")
                if row.lost or row.waiting:
                    progress(f"without an end: {sorted(deployment.ledger.open)[:20]}")
                for finding in deployment.ledger.findings:
                    progress(finding)

    def _has_ended(self) -> bool:
        return self.is_over.is_set() or time.monotonic() >= self.ends_at

    def rounds(self, scenarios: Mapping[str, SoakScenario], jobs: int) -> None:
        """Play rounds of *scenarios*, *jobs* at a time, until the time is over."""
        parts = ((f"round {number} {name}", name) for number in count(1) for name in scenarios)
        lock = threading.Lock()

        def work() -> None:
            while not self._has_ended():
                with lock:
                    part, name = next(parts)
                self.play(part, scenarios[name].stage, scenarios[name].steps)

        with ThreadPoolExecutor(jobs) as threads, self._ended_at_interrupt():
            for future in [threads.submit(work) for _ in range(jobs)]:
                future.result()

    @contextmanager
    def _ended_at_interrupt(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            progress("ends after the steps under way")
            self.is_over.set()
        except BaseException:
            self.is_over.set()
            raise


def play_brief(store: str, seed: int) -> SoakState:
    """Play the short form of all scenarios on *store* that have one, side by side."""
    soak = Soak(state=SoakState(seed=seed, store=store), ends_at=float("inf"))
    scenarios = SCENARIOS[store].items()
    parts = [(name, each.stage, each.brief) for name, each in scenarios if each.brief]
    with ThreadPoolExecutor(len(parts)) as threads:
        for future in [threads.submit(soak.play, *part) for part in parts]:
            future.result()
    return soak.state


def _line(row: LedgerSums) -> str:
    counts = row._asdict()
    return f"{counts.pop('scenario')}: " + ", ".join(f"{n} {each}" for each, n in counts.items())


def main(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    """Print the table; returns 1 for a fault, or if what a soak must have did not occur."""
    parser.add_argument("--minutes", type=float, default=30, help="minutes to run (30)")
    parser.add_argument("--seed", type=int, default=1, help="seed of all random choices (1)")
    parser.add_argument(
        "--store",
        choices=SCENARIOS,
        default="azurite",
        help="azurite: the Functions app; sqlite, postgres: pushgrid serve (azurite)",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="SCENARIO",
        help="; ".join(f"{store}: {', '.join(each)}" for store, each in SCENARIOS.items()),
    )
    parser.add_argument("--jobs", type=int, default=2, help="deployments at a time (2)")
    parser.add_argument("--resume", action="store_true", help=f"resume the run in {FOLDER.name}/")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    file = FOLDER / "state.json"
    state = SoakState(seed=options.seed, store=options.store)
    if options.resume:
        try:
            state = read(file)
        except (OSError, ValueError, KeyError, TypeError) as fault:
            print(f"soak: nothing to go on with: {fault}", file=sys.stderr)
            return 2
    began, before = time.monotonic(), state.seconds

    def save() -> None:
        state.seconds = before + time.monotonic() - began
        state.save(file)

    scenarios = SCENARIOS[state.store]
    if unknown := {*(options.only or ())} - scenarios.keys():
        parser.error(f"{state.store} has no scenario {min(unknown)}: {', '.join(scenarios)}")
    soak = Soak(state=state, ends_at=began + 60 * options.minutes, saved=save)
    soak.rounds({name: scenarios[name] for name in options.only or scenarios}, options.jobs)
    rows = sorted(state.rows.values())
    if options.json:
        found = {"rows": [row._asdict() for row in rows], "seen": state.seen}
        print(json.dumps({"seconds": round(state.seconds), **found}))
    else:
        print(f"{table(rows)}\n\n{occurrences(state.seen)}")
        print(f"{state.seconds / 60:.0f} minutes on {state.store}, seed {state.seed}")
    unseen = [] if options.only else state.unseen
    if unseen:
        print(f"soak: did not occur: {', '.join(unseen)}", file=sys.stderr)
    if unreached := [row.scenario for row in rows if not row.runs]:
        print(f"soak: what was to be attacked never came: {', '.join(unreached)}", file=sys.stderr)
    return 1 if unseen or any(row.faults for row in rows) else 0
