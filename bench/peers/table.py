"""Makes the table of a comparison: medians, ranges and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.peers.cases import CASES, FIGURES
from bench.peers.measuring import Figures
from bench.report import markdown, number

Results = dict[str, dict[str, list[Figures | None]]]  # runs by case and system
OURS, STANDARD = "Pushgrid", "BullMQ"


def table(results: Results, versions: dict[str, str]) -> str:
    """Return a row for each figure as a Markdown table, with what was lost and the versions."""
    systems = list(dict.fromkeys(name for by_system in results.values() for name in by_system))
    cells = [["median (range)", *systems, f"{OURS} : {STANDARD}"]]
    for each in CASES:
        runs = results.get(each.name, {})
        standard = results.get(each.standard, {}).get(STANDARD, [])
        for figure in each.figures if runs else ():
            title = ": ".join(filter(None, (each.name, FIGURES[figure])))
            figures = [_values(runs.get(name, []), figure) for name in systems]
            ratios = _ratios(_values(runs.get(OURS, []), figure), _values(standard, figure))
            cells.append([title, *map(_median_and_range, (*figures, ratios))])
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return "\n".join([*markdown(cells), "", *_faults(results), named])


def _values(runs: Sequence[Figures | None], figure: str) -> list[float | None]:
    return [getattr(run, figure) if run else None for run in runs]


def _ratios(ours: Sequence[float | None], theirs: Sequence[float | None]) -> list[float | None]:
    """Divide what was measured in the same repetition."""
    pairs = zip(ours, theirs, strict=False)
    return [our / their if our is not None and their else None for our, their in pairs]


def _median_and_range(values: Sequence[float | None]) -> str:
    known = [each for each in values if each is not None]
    if not known:
        return "-"
    return f"{number(statistics.median(known))} ({number(min(known))}-{number(max(known))})"


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
