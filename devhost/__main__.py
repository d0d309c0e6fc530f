"""Runs the command line."""

import logging
import os

from devhost.cli import main
from devhost.ending import run_exit_functions

if __name__ == "__main__":
    code = main(at_end=run_exit_functions)
    logging.shutdown()
    # Python would wait for the threads of functions that do not end; the host has waited enough.
    os._exit(code)
