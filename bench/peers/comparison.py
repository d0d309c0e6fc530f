"""Measures every case on every system, in turns, and prints the table."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bench.load import progress
from bench.peers.bullmq import BULLMQ
from bench.peers.cases import CASES, MeasuredCase
from bench.peers.celery import CELERY
from bench.peers.measuring import SECONDS, Figures, measure
from bench.peers.pushgrid import PUSHGRID, count
from bench.peers.system import System, SystemFailedError
from bench.peers.table import Results, rows, table
from bench.report import no_case
from devhost.errors import HostError

SYSTEMS = (PUSHGRID, BULLMQ, CELERY)
_FAULTS = (SystemFailedError, HostError, RuntimeError, OSError, subprocess.SubprocessError)
_BESIDE = 5.0  # seconds that a measurement takes beside publishing


def compare(systems: Sequence[System], cases: Sequence[MeasuredCase], repetitions: int) -> Results:
    """Measure each case in turns on the systems; ``None`` stands where a system failed."""
    results: Results = {each.case.name: {} for each in cases}
    for repetition in range(1, repetitions + 1):
        for measured, system in pairs(systems, cases):
            name = measured.case.name
            progress(f"{repetition} of {repetitions}: {name}: {system.name}")
            results[name].setdefault(system.name, []).append(_measure(system, measured))
    return results


def pairs(
    systems: Sequence[System], cases: Sequence[MeasuredCase]
) -> Iterator[tuple[MeasuredCase, System]]:
    """Yield each case with each system on which it is measured."""
    for measured in cases:
        for system in systems:
            if system is PUSHGRID or not measured.is_ours:
                yield measured, system


def _measure(system: System, measured: MeasuredCase) -> Figures | None:
    try:
        if "operations" in measured.figures:
            return count(measured.case)
        return measure(system, measured.case)
    except _FAULTS as error:
        progress(f"{system.name} failed: {error}")
        return None


def estimate(systems: Sequence[System], cases: Sequence[MeasuredCase], repetitions: int) -> float:
    """Return about how many minutes a comparison takes."""
    once = [system.seconds + SECONDS + _BESIDE for _, system in pairs(systems, cases)]
    return repetitions * sum(once) / 60


def present(systems: Sequence[System]) -> list[System]:
    """Return the systems that are installed; name what the others miss."""
    missing = {system.name: system.missing() for system in systems}
    for name, each in missing.items():
        if each:
            progress(f"{name} is left out: {'; '.join(each)}")
    return [system for system in systems if not missing[system.name]]


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Print the table; returns 1 if a system failed or lost an event, 2 if no case matches."""
    names = [system.name.lower() for system in SYSTEMS]
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--case", help="only cases whose name contains this")
    parser.add_argument("--system", choices=names, action="append", help="default: all")
    parser.add_argument("--repetitions", type=int, default=3, help="of each case (3)")
    options = parser.parse_args(arguments)
    cases = [each for each in CASES if (options.case or "") in each.case.name]
    if not cases:
        return no_case(options.case, (each.case.name for each in CASES))
    chosen = [each for each in SYSTEMS if each.name.lower() in (options.system or names)]
    if not (systems := present(chosen)):
        return 1
    progress(f"about {estimate(systems, cases, options.repetitions):.0f} min in all")
    versions = {name: each for system in systems for name, each in system.versions().items()}
    results = compare(systems, cases, options.repetitions)
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
