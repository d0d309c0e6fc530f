"""
Serves the app from a machine of one's own: HTTP, deliveries and timers in one process.

It composes `shared.app.App` on a `Home` (`home.py`), which stores everything; `process.py` runs it
from the first check to the exit code. The command is `cli/serve.py`.
"""
