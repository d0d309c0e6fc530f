"""Measures chosen cases one after the other, and prints their rows and what else went on."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import requests

from bench.load import progress
from devhost.errors import HostError

_FAULTS = (HostError, RuntimeError, OSError, requests.RequestException, subprocess.SubprocessError)
_AT_LEAST = ("delivered/s", "delivered : Azurite", "promised/min", "answered", "under way")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult:
    """What was measured in one phase of a case."""

    figures: Mapping[str, float]
    phase: str = ""
    # The least of rates and counts, the most of all other figures.
    wanted: Mapping[str, float] = field(default_factory=dict)
    case: str = ""
    # The share of processor time that other programs took; ``None``: unknown.
    others: float | None = None

    @property
    def missed(self) -> list[str]:
        """Name the figures that are not as wanted."""
        return [
            name
            for name, limit in self.wanted.items()
            if (self.figures[name] < limit if name in _AT_LEAST else self.figures[name] > limit)
        ]


Measure = Callable[..., Iterator[PhaseResult]]  # called with is_quick, whether it is only tried


class OthersTime:
    """Tells which share of the machine's processor time other programs took since it last told."""

    def __init__(self) -> None:
        self._before = self._now()

    def share(self) -> float | None:
        before, self._before = self._before, self._now()
        if before is None or self._before is None:
            return None
        total, busy, own = (now - then for now, then in zip(self._before, before, strict=True))
        return max(0.0, busy - own) / max(1, total)

    def _now(self) -> tuple[int, int, int] | None:
        """Return the ticks that there were, those that were used, and those that we used."""
        try:
            ticks = [
                int(each) for each in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
            ]
        except OSError:
            return None
        return sum(ticks), sum(ticks) - ticks[3] - ticks[4], ticks_of(os.getpid())


def ticks_of(root: int) -> int:
    """Return the ticks that a process and all its descendants used, with those that have ended."""
    return sum(_family(root).values())


def _family(root: int) -> dict[int, int]:
    """Return a process and all its descendants, each with the ticks that it used."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has just ended
            continue
        children.setdefault(int(fields[1]), []).append(pid := int(stat.parent.name))
        ticks[pid] = sum(int(each) for each in fields[11:15])
    family = [root]
    for each in family:
        family += children.get(each, [])
    return {each: ticks.get(each, 0) for each in family}


def processor_seconds(*roots: int) -> float:
    """Return the processor time of processes and all their descendants so far."""
    return sum(map(ticks_of, roots)) / os.sysconf("SC_CLK_TCK")


def memory(*roots: int) -> float:
    """Return the resident memory of processes and all their descendants, in MB."""
    pages = 0
    for pid in (pid for root in roots for pid in _family(root)):
        with suppress(OSError):  # it has just ended
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def run(
    parser: argparse.ArgumentParser, arguments: Sequence[str], cases: Mapping[str, Measure]
) -> int:
    """Print the table; returns 1 if a case failed or isn't as wanted, 2 if no case matches."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--case", help="only cases whose name contains this")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="to try it: fewer events and seconds, and nothing is judged",
    )
    options = parser.parse_args(arguments)
    chosen = [name for name in cases if (options.case or "") in name]
    if not chosen:
        return no_case(options.case, cases)
    progress(f"app: {os.environ.get('APP') or 'this checkout'}")
    rows: list[PhaseResult] = []
    failed: list[str] = []
    for name in chosen:
        progress(name)
        others = OthersTime()
        try:
            for measured in cases[name](is_quick=options.quick):
                wanted = {} if options.quick else measured.wanted
                row = replace(measured, case=name, wanted=wanted, others=others.share())
                rows.append(row)
                told = ", ".join(f"{what} {number(value)}" for what, value in row.figures.items())
                what = f"{name}: {row.phase}" if row.phase else name
                progress(f"{what}: {told}; others' CPU {row.others or 0:.0%}")
        except _FAULTS as error:
            failed.append(f"{name}: {error}")
            progress(f"failed: {failed[-1]}")
    if options.json:
        found = [asdict(row) | {"missed": row.missed} for row in rows]
        print(json.dumps({"rows": found, "failed": failed}, indent=2))
    else:
        print(table(rows, failed))
    return 1 if failed or any(row.missed for row in rows) else 0


def no_case(text: str, names: Iterable[str]) -> int:
    """Say that no case has *text* in its name; return the command's exit code."""
    known = ", ".join(f"'{name}'" for name in names)
    print(f"bench: no case has '{text}' in its name: {known}", file=sys.stderr)
    return 2


def table(rows: Sequence[PhaseResult], failed: Sequence[str] = ()) -> str:
    """Return rows as a Markdown table; a figure that is not as wanted has its limit beside it."""
    names = list(dict.fromkeys(name for row in rows for name in row.figures))
    phases = ["phase"] if any(row.phase for row in rows) else []
    cells = [["case", *phases, *names, "others' CPU"]]
    for row in rows:
        figures = [_cell(row, name) if name in row.figures else "" for name in names]
        others = "-" if row.others is None else f"{row.others:.0%}"
        cells.append([row.case, *([row.phase] if phases else []), *figures, others])
    return "\n".join([*markdown(cells), *(f"failed: {each}" for each in failed)])


def _cell(row: PhaseResult, name: str) -> str:
    missed = f" (wanted {number(row.wanted[name])})" if name in row.missed else ""
    return number(row.figures[name]) + missed


def markdown(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, whose first row is its head."""
    lined = [cells[0], ["-" * len(each) for each in cells[0]], *cells[1:]]
    widths = [max(map(len, column)) for column in zip(*lined, strict=True)]
    return [
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in lined
    ]


def number(value: float) -> str:
    """Return three digits, or as many as the value's whole part has; a count as it is."""
    if isinstance(value, int):
        return f"{value:,}"
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(0, 2 - magnitude)}f}"
