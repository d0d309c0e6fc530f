"""What alerts are about writes a line that has what their queries read: tests/infra/alerts.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.engine.ports import Queue
from shared.metrics import Metric, Series, Span
from tests.builders import URL, a_delivery, a_message, a_minute, a_note, an_attempt
from tests.functional.delivering.failing import fail
from tests.functional.deployment import MINUTE, Deployment, Logged

Happens = Callable[[Deployment], None]


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
    for job in (app.watch_queues, app.watch_waiting):
        job.run(app.in_a_minute())


def let_a_message_grow_old(app: Deployment) -> None:
    app.put(Queue.RETRIES, a_message())
    app.clock.advance(20 * MINUTE)
    app.watch_queues.run(app.in_a_minute())


# What an alert's mail names are the dimensions of its rule.
CRM = {"topic": "orders", "subscription": "crm"}
DELETED, REFUSED = "SubscriptionDeleted", "UndeliverableDueToHttpBadRequest"
#: What happens, the event of its line, and what the alert reads in it.
HAPPENINGS: list[tuple[Happens, str, dict[str, Any]]] = [
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


@pytest.mark.parametrize(("happens", "event", "read"), HAPPENINGS)
def test_a_line_has_what_its_alert_reads(
    app: Deployment, logged: Logged, happens: Happens, event: str, read: dict[str, Any]
) -> None:
    happens(app)

    [line] = logged(event)

    assert {name: line.get(name) for name in read} == read
