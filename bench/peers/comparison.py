"""Measures every case on every system, in turns, and prints the table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.load import Case, progress
from bench.peers.bullmq import BULLMQ
from bench.peers.measuring import SECONDS, Figures, measure
from bench.peers.pushgrid import PUSHGRID
from bench.peers.system import System, SystemFailedError
from bench.peers.table import Results, rows, table
from devhost.errors import HostError

SYSTEMS = (PUSHGRID, BULLMQ)
CASES = (  # name, events (chosen by speed), batch, publishers, subscriptions, rate
    Case("single events, 1 subscription", 0, 1, 16, 1),
    Case("single events, 10 subscriptions", 0, 1, 16, 10),
    Case("100 a request, 1 subscription", 0, 100, 16, 1),
    Case("100 a request, 10 subscriptions", 0, 100, 16, 10),
    Case("paced at 30/s", 0, 1, 4, 1, 30),
    Case("lone publisher", 0, 1, 1, 1, 5),
    Case("single events, output batches of 100", 0, 1, 16, 1, batching=100),
)
_WARMING = 4.0  # seconds that a measurement takes before and after what it measures


def compare(systems: Sequence[System], cases: Sequence[Case], repetitions: int) -> Results:
    """Measure each case in turns on the systems; ``None`` stands where a system failed."""
    results: Results = {case.name: {} for case in cases}
    for repetition in range(1, repetitions + 1):
        for case in cases:
            for system in systems:
                if takes_part(system, case):
                    progress(f"{repetition} of {repetitions}: {case.name}: {system.name}")
                    figures = _measure(system, case)
                    results[case.name].setdefault(system.name, []).append(figures)
    return results


def takes_part(system: System, case: Case) -> bool:
    """Tell whether a system has what the case needs: only Pushgrid has output batching."""
    return system is PUSHGRID or not case.batching


def _measure(system: System, case: Case) -> Figures | None:
    try:
        return measure(system, case)
    except (SystemFailedError, HostError, RuntimeError) as error:
        progress(f"{system.name} failed: {error}")
        return None


def estimate(systems: Sequence[System], cases: Sequence[Case], repetitions: int) -> float:
    """Return about how many minutes a comparison takes."""
    measured = [each.seconds for case in cases for each in systems if takes_part(each, case)]
    return repetitions * (sum(measured) + len(measured) * (SECONDS + _WARMING)) / 60


def present(systems: Sequence[System]) -> list[System]:
    """Return the systems that are installed; name what the others miss."""
    missing = {system.name: system.missing() for system in systems}
    for name, each in missing.items():
        if each:
            progress(f"{name} is left out: {'; '.join(each)}")
    return [system for system in systems if not missing[system.name]]


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 if a system failed or an event was lost, 2 if no case matches."""
    names = [system.name.lower() for system in SYSTEMS]
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--case", help="only cases whose name contains this")
    parser.add_argument("--system", choices=names, action="append", help="default: all")
    parser.add_argument("--repetitions", type=int, default=3, help="of each case (3)")
    options = parser.parse_args(arguments)
    cases = [case for case in CASES if not options.case or options.case in case.name]
    if not cases:
        known = ", ".join(f"'{case.name}'" for case in CASES)
        print(f"bench: no case has '{options.case}' in its name: {known}", file=sys.stderr)
        return 2
    chosen = [each for each in SYSTEMS if each.name.lower() in (options.system or names)]
    systems = present(chosen)
    progress(f"about {estimate(systems, cases, options.repetitions):.0f} minutes")
    results = compare(systems, cases, options.repetitions)
    versions = {name: each for system in systems for name, each in system.versions().items()}
    print(_json(results, versions) if options.json else table(results, versions))
    found = [each for by_system in results.values() for runs in by_system.values() for each in runs]
    return 0 if all(each and not each.lost for each in found) else 1


def _json(results: Results, versions: dict[str, str]) -> str:
    runs: dict[str, Any] = {
        case: {name: [each and asdict(each) for each in runs] for name, runs in by_system.items()}
        for case, by_system in results.items()
    }
    found = {"versions": versions, "rows": [asdict(row) for row in rows(results)], "runs": runs}
    return json.dumps(found, indent=2)
