"""`python -m cli`: one command, one module each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from cli import cost, demo, explain, listen, timeline


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong; ``--help`` has the rest."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command that is named, by ``sys.argv`` unless told otherwise; returns the exit code.

    Raises:
        SystemExit: 2 for arguments that make no sense, 0 after ``--help``.
    """
    parser = _Parser(prog="python -m cli", description="Pushgrid on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (cost, demo, explain, listen, timeline):
        command.add_to(commands)
    options = parser.parse_args(arguments)
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
