"""What the app has registered for the end of its process (``atexit``)."""

from __future__ import annotations

import atexit
import threading

SECONDS = 5.0


def run_exit_functions(seconds: float = SECONDS) -> bool:
    """
    Run what was registered with ``atexit``, for so many *seconds* at most.

    Python would run it only after it has waited for every thread, also of functions that never
    end. Returns whether all of it has ended; what has not is left behind.
    """
    thread = threading.Thread(target=atexit._run_exitfuncs, name="atexit", daemon=True)  # noqa: SLF001 - there is no other way to run them before threads have ended
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
