"""`python -m tools.bicepcheck.score`: how many of the corpus's faults the check finds."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.bicepcheck.check import check
from tools.bicepcheck.problems import Problem

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLE = HERE / "example"
CORPUS = HERE / "data" / "faults.json"
JOBS = 2

Entry = dict[str, Any]


@dataclass(slots=True)
class Score:
    """What became of a corpus; entries by their ids."""

    caught: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    alarms: dict[str, list[Problem]] = field(default_factory=dict)
    controls: int = 0
    by_category: dict[str, Counter[bool]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Return the share of faults that are found, 0 to 1."""
        faults = len(self.caught) + len(self.missed)
        return len(self.caught) / faults if faults else 1.0


def read(path: Path) -> list[Entry]:
    """Return the entries of a corpus."""
    return list(json.loads(path.read_text(encoding="utf-8")))


def mutated(text: str, entry: Entry) -> str:
    """
    Return *text* with the entry's edit.

    Raises:
        LookupError: the text to replace is not there.
    """
    pieces = text.split(entry["find"])
    at = entry.get("occurrence", 1)
    if len(pieces) <= at:
        raise LookupError(f"{entry['id']}: {entry['file']} does not hold what is replaced")
    find, replace = str(entry["find"]), str(entry["replace"])
    return find.join(pieces[:at]) + replace + find.join(pieces[at:])


def copied(base: str, place: Path) -> Path:
    """Copy the example, or our own templates (``infra``) with the code beside; return the copy."""
    copy = place / "infra"
    if base == "example":
        shutil.copytree(EXAMPLE, copy)
        return copy
    for name in ("shared", "infra"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*ROOT.glob("*_function/function.json"), ROOT / "azure.yaml", ROOT / "host.json"]:
        there = place / path.relative_to(ROOT)
        there.parent.mkdir(exist_ok=True)
        shutil.copy(path, there)
    return copy


def problems_of(entry: Entry) -> list[Problem]:
    """Return what the check says to a copy of the templates with the entry's edit."""
    with tempfile.TemporaryDirectory(prefix="infra-fault-") as place:
        copy = copied(entry.get("base", "example"), Path(place))
        path = copy / entry["file"]
        with path.open(encoding="utf-8", newline="") as stream:
            text = stream.read()
        path.write_text(mutated(text, entry), encoding="utf-8", newline="")
        return sorted(check(copy).problems)


def score(entries: Iterable[Entry]) -> Score:
    """Return what the check makes of a corpus."""
    entries = list(entries)
    check(EXAMPLE)  # reads the resource types, which are then there for all
    result = Score()
    with ProcessPoolExecutor(JOBS) as pool:
        for count, (entry, found) in enumerate(
            zip(entries, pool.map(problems_of, entries, chunksize=4), strict=True), 1
        ):
            _note(result, entry, found)
            if sys.stderr.isatty():
                print(f"\r{count} of {len(entries)}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    return result


def _note(result: Score, entry: Entry, found: list[Problem]) -> None:
    if entry["control"]:
        result.controls += 1
        if found:
            result.alarms[entry["id"]] = found
        return
    (result.caught if found else result.missed).append(entry["id"])
    result.by_category.setdefault(entry["category"], Counter())[bool(found)] += 1


def show(name: str, result: Score, entries: Iterable[Entry]) -> None:
    """Print a score."""
    by_id = {entry["id"]: entry for entry in entries}
    for one in result.missed:
        print(f"missed  {one}  {by_id[one]['file']}: {by_id[one]['description']}")
    for one, found in result.alarms.items():
        print(f"false alarm  {one}  {by_id[one]['description']}: {found[0]}")
    for category, count in sorted(result.by_category.items()):
        print(f"{category:24} {count[True]:3} of {count.total()}")
    faults = len(result.caught) + len(result.missed)
    print(
        f"{name}: {len(result.caught)} of {faults} faults found ({result.share:.0%}), "
        f"false alarms {len(result.alarms)} of {result.controls} harmless edits"
    )


def main(arguments: list[str]) -> int:
    """Print the score; the exit status is 1 when it is too low."""
    parser = argparse.ArgumentParser(prog="python -m tools.bicepcheck.score", description=__doc__)
    parser.add_argument(
        "corpus", type=Path, nargs="*", default=[CORPUS], help="JSON lists of edits (faults.json)"
    )
    parser.add_argument("--need", type=float, default=0.95, help="smallest share, 0 to 1")
    options = parser.parse_args(arguments)
    try:
        corpora = [(path, read(path)) for path in options.corpus]
    except (OSError, ValueError) as error:
        parser.error(f"a corpus can't be read: {error}")
    good = True
    for path, entries in corpora:
        result = score(entries)
        show(path.stem, result, entries)
        good = good and not result.alarms and result.share >= options.need
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
