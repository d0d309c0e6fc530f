"""`python -m tools.bicepcheck.score`: measures how many of the corpus's faults the check finds."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.bicepcheck.check import check
from tools.bicepcheck.problems import Problem

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLE = HERE / "example"
CORPUS = HERE / "data" / "corpus.json"

Entry = dict[str, Any]
"""One edit; README.md names its fields."""


@dataclass(slots=True)
class Score:
    """The entries of a set by result."""

    found: list[Entry] = field(default_factory=list)
    missed: list[Entry] = field(default_factory=list)
    accepted: list[Entry] = field(default_factory=list)
    false_alarms: list[tuple[Entry, Problem]] = field(default_factory=list)

    def add(self, entry: Entry, problems: list[Problem]) -> None:
        """Record the result of an entry."""
        if not entry.get("control"):
            (self.found if problems else self.missed).append(entry)
        elif problems:
            self.false_alarms.append((entry, problems[0]))
        else:
            self.accepted.append(entry)

    def failures(self) -> list[str]:
        """Return what must not happen: false alarms, and misses that the corpus does not expect."""
        return [
            f"missed: {one['id']} {one['file']}: {one['description']}"
            for one in self.missed
            if "missed" not in one
        ] + [
            f"false alarm: {one['id']} {one['description']}: {problem}"
            for one, problem in self.false_alarms
        ]

    def __str__(self) -> str:
        faults = len(self.found) + len(self.missed)
        harmless = len(self.accepted) + len(self.false_alarms)
        return (
            f"{len(self.found)} of {faults} faults found, "
            f"{len(self.false_alarms)} false alarms on {harmless} harmless edits"
        )


def edited(text: str, entry: Entry) -> str:
    """
    Return *text* with the entry's edit.

    Raises:
        LookupError: the text to replace is not there.
    """
    pieces = text.split(entry["find"])
    at = entry.get("occurrence", 1)
    if len(pieces) <= at:
        raise LookupError(f"{entry['id']}: {entry['file']} does not contain the text to replace")
    find, replace = str(entry["find"]), str(entry["replace"])
    return find.join(pieces[:at]) + replace + find.join(pieces[at:])


def copied(base: str, folder: Path) -> Path:
    """Copy the example, or this project's templates (``infra``) and the code; return the copy."""
    copy = folder / "infra"
    if base == "example":
        shutil.copytree(EXAMPLE, copy)
        return copy
    for name in ("shared", "infra"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*ROOT.glob("*_function/function.json"), ROOT / "azure.yaml", ROOT / "host.json"]:
        there = folder / path.relative_to(ROOT)
        there.parent.mkdir(exist_ok=True)
        shutil.copy(path, there)
    return copy


def problems_of(entry: Entry) -> list[Problem]:
    """Return the problems of a copy of the templates with the entry's edit."""
    with tempfile.TemporaryDirectory(prefix="bicepcheck-") as folder:
        copy = copied(entry.get("base", "example"), Path(folder))
        path = copy / entry["file"]
        text = edited(path.read_bytes().decode(), entry)
        path.write_bytes(text.encode())
        return sorted(check(copy).problems)


def score(entries: Iterable[Entry]) -> dict[str, Score]:
    """Check all entries; return the score of each set."""
    entries = list(entries)
    for folder in (EXAMPLE, ROOT / "infra"):
        check(folder)  # the processes below start with the files that this reads
    scores: dict[str, Score] = {}
    with ProcessPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        results = pool.map(problems_of, entries, chunksize=8)
        for entry, problems in zip(entries, results, strict=True):
            scores.setdefault(entry.get("set", "all"), Score()).add(entry, problems)
    return scores


def main(arguments: list[str]) -> int:
    """Print the scores; exit status 1: a miss that the corpus does not expect, or a false alarm."""
    parser = argparse.ArgumentParser(prog="python -m tools.bicepcheck.score", description=__doc__)
    parser.add_argument("corpus", type=Path, nargs="?", default=CORPUS, help="a list of edits")
    options = parser.parse_args(arguments)
    try:
        entries = json.loads(options.corpus.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        parser.error(f"can't read the corpus: {error}")
    scores = score(entries)
    failures = [line for one in scores.values() for line in one.failures()]
    for line in failures:
        print(line)
    for name, one in scores.items():
        print(f"{name + ':':10} {one}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
