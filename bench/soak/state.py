"""Keeps a soak's rows in a file, so that another run can go on where it ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.soak.ledger import Row


@dataclass(slots=True, kw_only=True)
class State:
    """
    What has been done with a *seed*, in how many *seconds*.

    *done* counts the steps of each part, which is a round and a scenario. Threads share it.
    """

    seed: int
    seconds: float = 0.0
    done: dict[str, int] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, part: str, row: Row) -> None:
        """Enter the next step of a part."""
        with self.lock:
            self.done[part] = self.done.get(part, 0) + 1
            self.rows[row.scenario] = self.rows.get(row.scenario, Row(row.scenario)).plus(row)

    def save(self, file: Path) -> None:
        with self.lock:
            document = {
                "seed": self.seed,
                "seconds": round(self.seconds),
                "done": self.done,
                "rows": [row._asdict() for row in self.rows.values()],
            }
            file.parent.mkdir(exist_ok=True)
            part = file.with_suffix(".new")
            part.write_text(json.dumps(document, indent=1))
            part.replace(file)


def read(file: Path) -> State:
    """Return what *file* has; raises OSError, ValueError, KeyError or TypeError."""
    document = json.loads(file.read_text())
    return State(
        seed=document["seed"],
        seconds=document["seconds"],
        done=document["done"],
        rows={row["scenario"]: Row(**row) for row in document["rows"]},
    )


def table(rows: Sequence[Row]) -> str:
    """Return the rows and their sum as a Markdown table."""
    total = Row("all")
    for row in rows:
        total = total.plus(row)
    lines = [
        "| scenario | runs | accepted | delivered | dead | waiting | lost | repeated | of |",
        "|---" + "|--:" * 8 + "|",
    ]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in (*rows, total)]
    return "\n".join(lines)
