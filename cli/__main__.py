"""Runs one command of `python -m cli`; each command is a module."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from cli import cost, demo, explain, listen, timeline


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line; ``--help`` shows the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command in *arguments* (default: ``sys.argv``); returns the exit code.

    Raises:
        SystemExit: 2 for invalid arguments, 0 after ``--help``.
    """
    parser = _Parser(prog="python -m cli", description="Operate Pushgrid from this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (cost, demo, explain, listen, timeline):
        command.add_to(commands)
    options = parser.parse_args(arguments)
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
