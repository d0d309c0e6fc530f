"""Runs the command line, then the app's `atexit` functions, and ends the process."""

import atexit
import logging
import os
import threading

from devhost.cli import main

_EXIT_SECONDS = 5.0


def run_exit_functions() -> None:
    """
    Run what the app registered with ``atexit``, for at most 5 seconds.

    Python itself runs it only after every thread has ended, and some functions never end.
    """
    run = atexit._run_exitfuncs  # noqa: SLF001 - the only way to run them before threads have ended
    thread = threading.Thread(target=run, name="atexit", daemon=True)
    thread.start()
    thread.join(_EXIT_SECONDS)


if __name__ == "__main__":
    code = main(at_end=run_exit_functions)
    logging.shutdown()
    # A normal exit would wait for functions that never end.
    os._exit(code)
