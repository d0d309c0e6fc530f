"""
Runs Microsoft's Bicep compiler, where there is one.

As a program it compiles the templates of the tests, and writes what Azure would make of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tools.infra import NO_COMPILER, MissingCompiler, compiler

#: Templates with their parameters; the modules that they deploy are in a folder of it.
TEMPLATES = Path(__file__).parent / "data/configuration"
_NAMES = ("oracle", "shop")
#: The deployment that snapshots are of: the local one that the command assumes.
_PLACE = (
    *("--subscription-id", "00000000-0000-0000-0000-000000000000"),
    *("--tenant-id", "00000000-0000-0000-0000-000000000000"),
    *("--resource-group", "local", "--location", "local", "--deployment-name", "local"),
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def _is_missing() -> bool:
    with suppress(MissingCompiler):  # it fails the tests that need it
        return compiler() is None
    return False


needs_compiler = pytest.mark.skipif(_is_missing(), reason=NO_COMPILER)


def snapshot(parameters: Path) -> Any:
    """Return what the compiler predicts for ``NAME.bicepparam``; it has no order of outputs."""
    run(parameters.parent, "snapshot", parameters.name, "--mode", "overwrite", *_PLACE)
    predicted = json.loads(parameters.with_suffix(".snapshot.json").read_text("utf-8"))
    return predicted | {"outputs": dict(sorted(predicted["outputs"].items()))}


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
        return compiled | {name: _as_text(each.result()) for name, each in snapshots}


def _as_text(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def run(folder: Path, *arguments: str) -> None:
    """Run the compiler in a folder; fail the test with what it reports."""
    if (program := compiler()) is None:
        raise MissingCompiler(NO_COMPILER)
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=os.environ | {"TZ": "UTC"},
    )
    assert done.returncode == 0, _COLOURS.sub("", done.stderr)


if __name__ == "__main__":
    try:
        made = generated()
    except MissingCompiler as missing:
        sys.exit(str(missing))
    for _name, _text in made.items():
        (TEMPLATES / _name).write_text(_text, "utf-8")
