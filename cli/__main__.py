"""`python -m cli`: one command, one module each."""

from __future__ import annotations

import argparse
import sys

from cli import demo, explain, listen


def main() -> int:
    """Run the command that was named; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cli", description="Pushgrid on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (demo, explain, listen):
        command.add_to(commands)
    options = parser.parse_args()
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
