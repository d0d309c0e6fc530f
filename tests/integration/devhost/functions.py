"""Triggers and sources of the functions in these tests."""

from __future__ import annotations

HTTP = {"type": "httpTrigger", "name": "req"}
QUEUE = {"type": "queueTrigger", "name": "message"}
TIMER = {"type": "timerTrigger", "name": "tick", "schedule": "* * * * * *"}
HELLO = "def main(req): return 'hello'"
TICK = "def main(tick): ..."
#: Waits until the test makes the file `gate` in the app's folder.
WAIT = """
import logging, pathlib, time
def wait():
    logging.info('waiting')
    while not pathlib.Path(__file__).parents[1].joinpath('gate').exists():
        time.sleep(0.02)
"""
#: Logs each message, and waits for the gate between `in` and `out` if its text begins with "slow".
WORK = f"""{WAIT}
def main(message):
    text = message.get_body().decode()
    logging.info('in %s', text)
    if text.startswith('slow'):
        wait()
    logging.info('out %s', text)
"""
