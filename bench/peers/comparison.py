"""Measures every case on every system, in turns, and prints the table."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from itertools import product

from bench.load import progress
from bench.peers.bullmq import BULLMQ
from bench.peers.cases import CASES, MeasuredCase
from bench.peers.celery import CELERY
from bench.peers.measuring import Figures, measure
from bench.peers.pushgrid import ON_AZURITE, PUSHGRID
from bench.peers.system import System, SystemFailedError
from bench.peers.table import Results, table
from bench.report import no_case
from devhost.errors import HostError

SYSTEMS = (PUSHGRID, ON_AZURITE, BULLMQ, CELERY)
_FAULTS = (SystemFailedError, HostError, RuntimeError, OSError, subprocess.SubprocessError)


def compare(systems: Sequence[System], cases: Sequence[MeasuredCase], repetitions: int) -> Results:
    """Measure each case in turns on the systems; ``None`` stands where a system failed."""
    results: Results = {each.name: {} for each in cases}
    for repetition in range(1, repetitions + 1):
        for measured, system in product(cases, systems):
            if measured.is_ours and system not in (PUSHGRID, ON_AZURITE):
                continue
            name = measured.name
            progress(f"{repetition} of {repetitions}: {name}: {system.name}")
            results[name].setdefault(system.name, []).append(_measure(system, measured))
    return results


def _measure(system: System, measured: MeasuredCase) -> Figures | None:
    try:
        return measure(system, measured.case)
    except _FAULTS as error:
        progress(f"{system.name} failed: {error}")
        return None


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
    parser.add_argument("--case", help="only cases whose name contains this")
    parser.add_argument("--system", choices=names, action="append", help="default: all")
    parser.add_argument("--repetitions", type=int, default=3, help="of each case (3)")
    options = parser.parse_args(arguments)
    cases = [each for each in CASES if (options.case or "") in each.name]
    if not cases:
        return no_case(options.case, (each.name for each in CASES))
    chosen = [each for each in SYSTEMS if each.name.lower() in (options.system or names)]
    if not (systems := present(chosen)):
        return 1
    versions = {name: each for system in systems for name, each in system.versions().items()}
    results = compare(systems, cases, options.repetitions)
    print(table(results, versions))
    found = [each for by_system in results.values() for runs in by_system.values() for each in runs]
    return 0 if all(each and not each.lost for each in found) else 1
