"""
Counts storage operations with a proxy in front of Azurite: the measured half of `cli cost`.

``python -m bench operations --write`` plays every scenario on the local host, derives the
operations of each step, and writes both to ``cli/data/operations.json``. It takes about ten
minutes, half of them for an idle host.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.load import progress
from bench.scenario import SCENARIOS, play
from bench.steps import runs, steps

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "cli" / "data" / "operations.json"


def versions() -> dict[str, str]:
    """Return the versions of what was measured."""
    azurite = json.loads((ROOT / "node_modules/azurite/package.json").read_text())["version"]
    packages = ("azure-functions", "azure-storage-queue", "azure-storage-blob", "azure-data-tables")
    return {
        "python": platform.python_version(),
        "azurite": azurite,
        **{name: importlib.metadata.version(name) for name in packages},
    }


def document(scenarios: list[dict[str, Any]], today: str) -> dict[str, Any]:
    """Return the file's members; *today* is the date of the measurement."""
    by_name = {each["name"]: each for each in scenarios}
    return {
        "measured": today,
        "command": "python -m bench operations --write",
        "versions": versions(),
        "steps": steps(by_name),
        "runs": runs(by_name),
        "scenarios": scenarios,
    }


def main(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """Play the scenarios; write or print the result."""
    parser.add_argument("--write", action="store_true", help=f"write {TARGET.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    scenarios = []
    for scenario in SCENARIOS:
        progress(scenario.name)
        scenarios.append(play(scenario).document())
    text = json.dumps(document(scenarios, f"{datetime.now(UTC):%Y-%m-%d}"), indent=1) + "\n"
    if options.write:
        TARGET.write_text(text)
    else:
        print(text, end="")
    return 0
