"""
Runs Microsoft's Bicep compiler, where there is one.

As a program it compiles the templates of the tests, and writes what Azure would make of them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tools import infra

#: Templates with their parameters; the modules that they deploy are in a folder of it.
TEMPLATES = Path(__file__).parent / "data/configuration"
_NAMES = ("oracle", "shop")
#: The deployment that snapshots are of: the local one that the command assumes.
_PLACE = (
    *("--subscription-id", "00000000-0000-0000-0000-000000000000"),
    *("--tenant-id", "00000000-0000-0000-0000-000000000000"),
    *("--resource-group", "local", "--location", "local", "--deployment-name", "local"),
)


def _is_missing() -> bool:
    with suppress(infra.MissingCompiler):  # it fails the tests that need it
        return infra.compiler() is None
    return False


needs_compiler = pytest.mark.skipif(_is_missing(), reason=infra.NO_COMPILER)


def snapshot(parameters: Path) -> Any:
    """Return what the compiler predicts for ``NAME.bicepparam``."""
    run(parameters.parent, "snapshot", parameters.name, "--mode", "overwrite", *_PLACE)
    return infra.read_snapshot(parameters)


def generated() -> Mapping[str, str]:
    """Return the files that are made from `TEMPLATES`, by name: compiled ones, and snapshots."""
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor() as pool:
        folder = shutil.copytree(TEMPLATES, Path(scratch).resolve() / "templates")
        snapshots = [
            (f"{name}.snapshot.json", pool.submit(snapshot, folder / f"{name}.bicepparam"))
            for name in _NAMES
        ]
        run(folder, "build", "--pattern", "*.bicep")
        compiled = {f"{name}.json": (folder / f"{name}.json").read_text("utf-8") for name in _NAMES}
        return compiled | {name: infra.as_text(each.result()) for name, each in snapshots}


def run(folder: Path, *arguments: str) -> None:
    """Run the compiler in a folder; fail the test with what it reports."""
    if (program := infra.compiler()) is None:
        raise infra.MissingCompiler(infra.NO_COMPILER)
    done = infra.run(program, folder, *arguments)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    try:
        made = generated()
    except infra.MissingCompiler as missing:
        sys.exit(str(missing))
    for _name, _text in made.items():
        (TEMPLATES / _name).write_text(_text, "utf-8")
