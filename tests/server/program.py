"""The command `pushgrid`, with `serve` on a home in memory."""

from __future__ import annotations

import sys

from cli import program
from cli.serve import serve_command
from tests.server.memory_home import MemoryHome

serve = serve_command(MemoryHome)

if __name__ == "__main__":
    program._COMMANDS["serve"] = ("tests.server.program", "serve")
    sys.exit(program.main())
