"""Runs the command `pushgrid`, in a checkout or as it is installed; no part of the app."""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE = Path(__file__).parent
_HOME = _PACKAGE / "home"  # in an installed package: what stands beside this one in a checkout


def main() -> int:
    """Run the command that the command line names; return the exit code."""
    sys.path.insert(0, str(_HOME if _HOME.is_dir() else _PACKAGE.parent))
    try:
        from cli.program import main
    except ModuleNotFoundError as missing:
        sys.exit(f"pushgrid: there is no '{missing.name}': pip install 'pushgrid[local]'")
    return main()
