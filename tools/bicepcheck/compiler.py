"""Runs the Bicep compiler, if it is installed: `bicep`, or the one that `az` has installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tools.bicepcheck.problems import Report

_TIMEOUT_SECONDS = 120
_LINE = re.compile(
    r"(?P<file>.+?)\((?P<line>\d+),\d+\) : (Error|Warning) (?P<code>\S+?): (?P<text>.*)"
)


def _command() -> list[str] | None:
    """Return the command that compiles a file; ``None``: there is no compiler."""
    if bicep := shutil.which("bicep"):
        return [bicep, "build", "--stdout"]
    if az := shutil.which("az"):
        try:
            if _run([az, "bicep", "version"]).returncode == 0:
                return [az, "bicep", "build", "--stdout", "--file"]
        except (OSError, subprocess.TimeoutExpired):
            pass
    return None


def check(root: Path, report: Report) -> None:
    """Add the compiler's problems; without a compiler, add that it was not run."""
    build = _command()
    if build is None:
        report.unchecked.add(
            "what the Bicep compiler reports: neither bicep nor az bicep is installed"
        )
        return
    try:
        done = _run([*build, str(root / "main.bicep")])
    except (OSError, subprocess.TimeoutExpired) as error:
        report.add("main.bicep", 1, "compiler", f"the compiler does not answer: {error}")
        return
    found = [line for text in done.stderr.splitlines() if (line := _LINE.search(text))]
    for line in found:
        path = Path(line["file"].removeprefix("ERROR: ").removeprefix("WARNING: "))
        inside = path.is_relative_to(root.resolve())
        name = str(path.relative_to(root.resolve())) if inside else path.name
        report.add(name, int(line["line"]), line["code"], line["text"])
    if done.returncode and not found:
        report.add("main.bicep", 1, "compiler", done.stderr.strip()[-200:])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
    )
