"""Makes the table of a comparison: medians, ranges and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.peers.cases import CASES, FIGURES
from bench.peers.measuring import Figures
from bench.report import markdown, number

Results = dict[str, dict[str, list[Figures | None]]]  # runs by case and system
OURS, STANDARD = "Pushgrid", "BullMQ"


@dataclass(frozen=True, slots=True)
class FigureRange:
    """Median and range of what was measured repeatedly."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One figure of a case."""

    title: str
    spreads: dict[str, FigureRange | None]  # by system
    ratio: FigureRange | None  # Pushgrid's over BullMQ's, each of the same repetition


def spread(values: Sequence[float | None]) -> FigureRange | None:
    """Return the median and range of what is known, if anything is."""
    known = [each for each in values if each is not None]
    return FigureRange(statistics.median(known), min(known), max(known)) if known else None


def rows(results: Results) -> list[ComparedFigure]:
    """Return a row for each figure that was measured."""
    found = []
    for each in CASES:
        runs = results.get(each.case.name, {})
        standard = results.get(each.standard, {}).get(STANDARD, [])
        for figure in each.figures if runs else ():
            ours, theirs = _values(runs.get(OURS, []), figure), _values(standard, figure)
            row = ComparedFigure(
                title=": ".join(filter(None, (each.case.name, FIGURES[figure]))),
                spreads={name: spread(_values(those, figure)) for name, those in runs.items()},
                ratio=spread(_ratios(ours, theirs)),
            )
            found.append(row)
    return found


def _values(runs: Sequence[Figures | None], figure: str) -> list[float | None]:
    return [getattr(run, figure) if run else None for run in runs]


def _ratios(ours: Sequence[float | None], theirs: Sequence[float | None]) -> list[float | None]:
    """Divide what was measured in the same repetition."""
    pairs = zip(ours, theirs, strict=False)
    return [our / their if our is not None and their else None for our, their in pairs]


def table(results: Results, versions: dict[str, str]) -> str:
    """Return the rows as a Markdown table, with what was lost and the versions."""
    systems = list(dict.fromkeys(name for by_system in results.values() for name in by_system))
    head = ["median (range)", *systems, f"{OURS} : {STANDARD}"]
    cells = [head]
    for row in rows(results):
        spreads = [_cell(row.spreads.get(name)) for name in systems]
        cells.append([row.title, *spreads, _cell(row.ratio)])
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return "\n".join([*markdown(cells), "", *_faults(results), named])


def _cell(spread: FigureRange | None) -> str:
    if spread is None:
        return "-"
    return f"{number(spread.median)} ({number(spread.least)}-{number(spread.most)})"


def _faults(results: Results) -> list[str]:
    """Name the runs that failed, and what was lost or came twice."""
    lines = []
    for case, by_system in results.items():
        for name, runs in by_system.items():
            failed = sum(run is None for run in runs)
            lost = sum(run.lost for run in runs if run)
            repeated = sum(run.repeated for run in runs if run)
            counts = {"failed": failed, "lost": lost, "repeated": repeated}
            told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
            if told:
                lines.append(f"{name}, {case}: {told}")
    return lines
