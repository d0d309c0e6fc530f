"""
What Pushgrid asks of storage, counted by a proxy before Azurite: the measured half of `cli cost`.

``python -m bench.operations --write`` plays every scenario on the real host, derives what each step
takes, and writes both to ``cli/data/operations.json``. It takes some ten minutes, half of them
for watching an idle host; ``--only NAME`` plays one scenario and prints it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.load import progress
from bench.scenario import SCENARIOS, play
from bench.steps import runs, steps

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "cli" / "data" / "operations.json"


def versions() -> dict[str, str]:
    """Return what the numbers were measured with."""
    azurite = json.loads((ROOT / "node_modules/azurite/package.json").read_text())["version"]
    packages = ("azure-functions", "azure-storage-queue", "azure-storage-blob", "azure-data-tables")
    return {
        "python": platform.python_version(),
        "azurite": azurite,
        **{name: importlib.metadata.version(name) for name in packages},
    }


def document(scenarios: list[dict[str, Any]], today: str) -> dict[str, Any]:
    """Return the file's content; *today* is the day of measuring."""
    by_name = {each["name"]: each for each in scenarios}
    return {
        "measured": today,
        "command": "python -m bench.operations --write",
        "versions": versions(),
        "steps": steps(by_name),
        "runs": runs(by_name),
        "scenarios": scenarios,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Play and write, or print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"to {TARGET.relative_to(ROOT)}")
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--only", metavar="NAME", choices=names, help="one scenario, printed")
    options = parser.parse_args(arguments)
    scenarios = []
    for scenario in SCENARIOS:
        if options.only in (None, scenario.name):
            progress(scenario.name)
            scenarios.append(play(scenario).document())
    if options.only:
        print(json.dumps(scenarios, indent=1))
        return 0
    text = json.dumps(document(scenarios, f"{datetime.now(UTC):%Y-%m-%d}"), indent=1) + "\n"
    if options.write:
        TARGET.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
