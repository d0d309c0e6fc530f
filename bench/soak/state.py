"""Keeps a soak's rows in a file, so that another run can go on where it ended."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.report import markdown
from bench.soak.ledger import LedgerSums, Occurrence


@dataclass(slots=True, kw_only=True)
class SoakState:
    """What has been done with a seed, in how many seconds. Threads share it."""

    seed: int
    store: str
    seconds: float = 0.0
    # Steps of each part, which is a round and a scenario.
    done: dict[str, int] = field(default_factory=dict)
    rows: dict[str, LedgerSums] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)  # what occurred
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, part: str, row: LedgerSums, seen: Mapping[Occurrence, int]) -> None:
        """Enter the next step of a part, and what it has *seen*."""
        with self.lock:
            self.done[part] = self.done.get(part, 0) + 1
            self.rows[row.scenario] = self.rows.get(row.scenario, LedgerSums(row.scenario)).plus(
                row
            )
            self.seen.update(seen)

    @property
    def unseen(self) -> list[Occurrence]:
        """What has not occurred: without it the result means little."""
        return [each for each in Occurrence if not self.seen[each]]

    def save(self, file: Path) -> None:
        with self.lock:
            document = {
                "seed": self.seed,
                "store": self.store,
                "seconds": round(self.seconds),
                "done": self.done,
                "seen": self.seen,
                "rows": [row._asdict() for row in self.rows.values()],
            }
            file.parent.mkdir(exist_ok=True)
            part = file.with_suffix(".new")
            part.write_text(json.dumps(document, indent=1))
            part.replace(file)


def read(file: Path) -> SoakState:
    """Return what *file* has; raises OSError, ValueError, KeyError or TypeError."""
    document = json.loads(file.read_text())
    return SoakState(
        seed=document["seed"],
        store=document["store"],
        seconds=document["seconds"],
        done=document["done"],
        seen=Counter(document["seen"]),
        rows={row["scenario"]: LedgerSums(**row) for row in document["rows"]},
    )


def table(rows: Sequence[LedgerSums]) -> str:
    """Return the rows and their sum as a Markdown table."""
    total = LedgerSums("all")
    for row in rows:
        total = total.plus(row)
    head = [each.replace("_", " ") for each in LedgerSums._fields]
    return "\n".join(markdown([head, *([*map(str, row)] for row in (*rows, total))]))


def occurrences(seen: Mapping[str, int]) -> str:
    """Return how often each thing occurred that a soak must have."""
    return ", ".join(f"{each}: {seen.get(each, 0)}" for each in Occurrence)
