"""Causes what the alerts of infra/ are about, and gives the lines that the app writes about it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from pushgrid.testing.memory import answered
from shared.engine.ports import Queue
from shared.engine.timers.queue_watch import WatchQueues
from shared.engine.timers.waiting_events import WatchWaiting
from shared.metrics import Metric, Series, Span
from tests.builders import URL, a_delivery, a_message, a_minute, a_note, an_attempt
from tests.functional.delivering.failing import fail
from tests.functional.deployment import MINUTE, Deployment

Line = dict[str, Any]


def write_dead_letters(app: Deployment) -> None:
    tried = [a_delivery(0), a_delivery(1, attempts=1, last=an_attempt())]
    app.put(Queue.DEADLETTERS, a_message(tried, dead_letter=a_note()))
    app.write_dead_letters.run(app.in_a_minute())


def drop_for_a_deleted_subscription(app: Deployment) -> None:
    app.run(a_message([a_delivery(0), a_delivery(1)]))


def drop_what_is_refused(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(400))
    app.run(a_message())


def hold_an_endpoint(app: Deployment) -> None:
    fail(app, 404)


def let_events_wait(app: Deployment) -> None:
    """test_housekeeping.py has what is counted."""
    failed = Series(Metric.ATTEMPT_FAIL, (("Error", "Busy"), ("ErrorType", "ServerError")))
    app.counts.write([a_minute({Series(Metric.MATCHED): 3, failed: 1}, span=Span.HOUR)])
    app.put(Queue.RETRIES, a_message())
    queues = WatchQueues(watch=app.queues, clock=app.clock)
    waiting = WatchWaiting(queues=queues, counts=app.counts, state=app.resources, clock=app.clock)
    for job in (queues, waiting):
        job.run(app.in_a_minute())


def let_a_message_grow_old(app: Deployment) -> None:
    app.put(Queue.RETRIES, a_message())
    app.clock.advance(20 * MINUTE)
    WatchQueues(watch=app.queues, clock=app.clock).run(app.in_a_minute())


# What an alert's mail names are the dimensions of its rule.
CRM = {"topic": "orders", "subscription": "crm"}
DELETED, REFUSED = "SubscriptionDeleted", "UndeliverableDueToHttpBadRequest"
#: What happens, the event of its line, and what the alert reads in it.
HAPPENINGS: list[tuple[Callable[[Deployment], None], str, Line]] = [
    (write_dead_letters, "deadletter_batch", {"count": 2, "cause": "503 Busy"} | CRM),
    (
        drop_for_a_deleted_subscription,
        "delivery.dropped",
        {"count": 2, "reason": DELETED, "cause": None} | CRM,
    ),
    (
        drop_what_is_refused,
        "delivery.dropped",
        {"count": 1, "reason": REFUSED, "cause": "400 BadRequest"} | CRM,
    ),
    (hold_an_endpoint, "hold.began", {"cause": "404 NotFound"} | CRM),
    (let_events_wait, "events.waiting", {"events": 3, "cause": "Busy"} | CRM),
    (let_a_message_grow_old, "queue.depth", {"oldest_seconds": 1200.0}),
]


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Line] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(record.getMessage()))


@cache
def written() -> list[tuple[Line, Line]]:
    """Return for each of `HAPPENINGS` the line that was written, and what is read in it."""
    logger = logging.getLogger("pushgrid")
    level, found = logger.level, []
    for happens, event, read in HAPPENINGS:
        kept = _Kept()
        logger.addHandler(kept)
        logger.setLevel(logging.INFO)
        try:
            happens(Deployment())
        finally:
            logger.removeHandler(kept)
            logger.setLevel(level)
        (line,) = (each for each in kept.lines if each["event"] == event)
        found.append((line, {"event": event} | read))
    return found
