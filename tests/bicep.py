"""Runs Microsoft's Bicep compiler, where there is one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

#: The deployment that snapshots are of: a local one, as the command assumes it.
_PLACE = (
    *("--subscription-id", "00000000-0000-0000-0000-000000000000"),
    *("--tenant-id", "00000000-0000-0000-0000-000000000000"),
    *("--resource-group", "local", "--location", "local", "--deployment-name", "local"),
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def compiler() -> str | None:
    """Return the path of the compiler, if there is one: where Azure CLI finds it, too."""
    if named := os.environ.get("BICEP"):
        return named
    return shutil.which("bicep") or shutil.which("bicep", path=Path.home() / ".azure/bin")


needs_compiler = pytest.mark.skipif(
    compiler() is None,
    reason="no Bicep compiler: set BICEP, put `bicep` on the path, or run `az bicep install`",
)


def build(folder: Path) -> None:
    """Compile each ``NAME.bicep`` of *folder* into ``NAME.json``."""
    _run(folder, "build", "--pattern", "*.bicep")


def snapshot(parameters: Path) -> Any:
    """Return what the compiler predicts for ``NAME.bicepparam``, with its outputs in order."""
    _run(parameters.parent, "snapshot", parameters.name, "--mode", "overwrite", *_PLACE)
    predicted = json.loads(parameters.with_suffix(".snapshot.json").read_text("utf-8"))
    predicted["outputs"] = dict(sorted(predicted["outputs"].items()))
    return predicted


def _run(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [str(compiler()), *arguments],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, _COLOURS.sub("", done.stderr)
