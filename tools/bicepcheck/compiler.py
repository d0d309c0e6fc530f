"""The real compiler, where there is one: `bicep`, or the one that `az` has installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tools.bicepcheck.problems import Report

_SECONDS = 120
_LINE = re.compile(
    r"(?P<file>.+?)\((?P<line>\d+),\d+\) : (Error|Warning) (?P<code>\S+?): (?P<text>.*)"
)


def command() -> list[str] | None:
    """Return how the compiler is called; ``None``: there is none. Nothing is downloaded."""
    if bicep := shutil.which("bicep"):
        return [bicep, "build", "--stdout"]
    if (az := shutil.which("az")) and _works([az, "bicep", "version"]):
        return [az, "bicep", "build", "--stdout", "--file"]
    return None


def check(root: Path, report: Report) -> None:
    """Add what the compiler says; without one, that it said nothing."""
    build = command()
    if build is None:
        report.unchecked.add("what the Bicep compiler says: neither bicep nor az bicep is there")
        return
    try:
        done = subprocess.run(
            [*build, str(root / "main.bicep")],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        report.add("main.bicep", 1, "compiler", f"the compiler does not answer: {error}")
        return
    found = [said for line in done.stderr.splitlines() if (said := _LINE.search(line))]
    for said in found:
        path = Path(said["file"].removeprefix("ERROR: ").removeprefix("WARNING: "))
        inside = path.is_relative_to(root.resolve())
        name = str(path.relative_to(root.resolve())) if inside else path.name
        report.add(name, int(said["line"]), said["code"], said["text"])
    if done.returncode and not found:
        report.add("main.bicep", 1, "compiler", done.stderr.strip()[-200:])


def _works(words: list[str]) -> bool:
    try:
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
