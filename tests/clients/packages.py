"""Puts the packages of other languages beside a program, as they are pinned here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parent
#: Where setup puts Node if the machine has none.
BESIDE_PYTHON = Path(sys.executable).parent


def require(tool: str) -> None:
    """Skip the test where *tool* is not installed."""
    if not (shutil.which(tool) or (BESIDE_PYTHON / tool).exists()):
        pytest.skip(f"{tool} is not installed")


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def provide_javascript(folder: Path) -> None:
    modules = CLIENTS / "javascript/node_modules"
    assert (modules / "standardwebhooks").is_dir(), "set up by `make clients`"
    (folder / "node_modules").symlink_to(modules)


def provide_go(folder: Path) -> None:
    for name in ("go.mod", "go.sum"):
        shutil.copy(CLIENTS / "go" / name, folder)


def provide_java(folder: Path) -> None:
    """Copy the jars into ``lib``."""
    pom, output = str(CLIENTS / "java/pom.xml"), f"-DoutputDirectory={folder / 'lib'}"
    run(folder, "mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", output)
