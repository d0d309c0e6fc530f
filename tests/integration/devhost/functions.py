"""Triggers and sources of the functions in these tests."""

from __future__ import annotations

HTTP = {"type": "httpTrigger", "name": "req"}
QUEUE = {"type": "queueTrigger", "name": "message"}
TIMER = {"type": "timerTrigger", "name": "tick", "schedule": "* * * * * *"}
HELLO = "def main(req): return 'hello'"
TICK = "def main(tick): ..."
WORK = (
    "import logging, time\n"
    "def main(message):\n"
    "    text = message.get_body().decode()\n"
    "    logging.info('in %s', text)\n"
    "    time.sleep(2 if text.startswith('slow') else 0)\n"
    "    logging.info('out %s', text)\n"
)
