"""The alerts' queries read lines that the app writes, by the names that it writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.engine.ports import Queue
from shared.engine.timers.queue_watch import WatchQueues
from shared.engine.timers.waiting_events import WatchWaiting
from shared.metrics import Metric, Series, Span
from tests.builders import URL, a_delivery, a_message, a_minute, a_note, an_attempt
from tests.functional.delivering.failing import fail
from tests.functional.deployment import MINUTE, Deployment, Logged

ROOT = Path(__file__).parents[2]
ALERTS = (ROOT / "infra/modules/alerts.bicep").read_text()
RULES = dict(re.findall(r"name: '([\w-]+)'\n.*?query: '''\n(.*?)'''", ALERTS, re.DOTALL))


def fields(rule: str) -> set[str]:
    """Return what a rule's query reads of a line."""
    return set(re.findall(r"Line\.(\w+)", RULES[rule]))


def event(rule: str) -> str:
    """Return the only event whose lines a rule counts; it finds them by that word."""
    found = re.search(r'tostring\(Line\.event\) == "([\w.]+)"', RULES[rule])
    assert found
    assert f'Message has "{found[1]}"' in RULES[rule]
    return found[1]


def test_there_is_a_rule_for_everything_that_needs_somebody() -> None:
    assert set(RULES) == {
        "pushgrid-dead-letters",
        "pushgrid-dropped-events",
        "pushgrid-held-endpoints",
        "pushgrid-oldest-message",
        "pushgrid-waiting-events",
        "pushgrid-publish-failures",
        "pushgrid-damaged-tables",
        "pushgrid-heartbeat",
    }


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
EVENTS = "sum(tolong(Line.count) * ItemCount)"
SECONDS = "max(toreal(Line.oldest_seconds)) / 60"
DELETED, REFUSED = "SubscriptionDeleted", "UndeliverableDueToHttpBadRequest"


@pytest.mark.parametrize(
    ("rule", "happens", "sums", "read"),
    [
        ("dead-letters", write_dead_letters, EVENTS, {"count": 2, "cause": "503 Busy"} | CRM),
        (
            "dropped-events",
            drop_for_a_deleted_subscription,
            EVENTS,
            {"count": 2, "reason": DELETED, "cause": None} | CRM,
        ),
        (
            "dropped-events",
            drop_what_is_refused,
            EVENTS,
            {"count": 1, "reason": REFUSED, "cause": "400 BadRequest"} | CRM,
        ),
        ("held-endpoints", hold_an_endpoint, "", {"cause": "404 NotFound"} | CRM),
        ("waiting-events", let_events_wait, "", {"events": 3, "cause": "Busy"} | CRM),
        ("oldest-message", let_a_message_grow_old, SECONDS, {"oldest_seconds": 1200.0}),
    ],
)
def test_a_rule_reads_what_its_line_has(
    app: Deployment,
    logged: Logged,
    rule: str,
    happens: Callable[[Deployment], None],
    sums: str,
    read: dict[str, Any],
) -> None:
    rule = f"pushgrid-{rule}"
    happens(app)

    [line] = logged(event(rule))

    assert fields(rule) == {"event", *read}
    assert sums in RULES[rule]
    assert {name: line.get(name) for name in read} == read


def test_rules_by_dimension_name_those_of_their_query() -> None:
    for rule, query in RULES.items():
        after = ALERTS.split(f"name: '{rule}'")[1]
        [dimensions] = re.findall(r"dimensions: \[(.*)\]", after.partition("threshold")[0])
        named = set(re.findall(r"(\w+) = ", query)) - {"Line", "Value"}
        assert set(re.findall(r"'(\w+)'", dimensions)) == named


def test_the_rule_about_damaged_tables_counts_both_lines() -> None:
    """Other tests see them written: test_damaged_tables.py, test_unreadable_subscriptions.py."""
    query = RULES["pushgrid-damaged-tables"]
    events = re.search(r"Line\.event\) in \((.*)\)", query)

    assert events
    assert set(events[1].split(", ")) == {'"document.unreadable"', '"table.missing"'}
    assert set(re.findall(r"Message has (\"\S+\")", query)) == set(events[1].split(", "))
    assert "sum(ItemCount)" in query


@pytest.mark.parametrize(
    ("rule", "pattern"),
    [
        ("pushgrid-publish-failures", r'OperationName startswith "(\w+)"'),
        ("pushgrid-heartbeat", r'OperationName == "(\w+)"'),
    ],
)
def test_rules_about_functions_name_functions(rule: str, pattern: str) -> None:
    """The host names requests after the folder; the heartbeat is the timer that writes the rest."""
    folders = {path.parent.name for path in ROOT.glob("*_function/function.json")}
    found = re.search(pattern, RULES[rule])

    assert found
    named = {folder for folder in folders if folder.startswith(found[1])}
    assert (
        named
        == {
            "pushgrid-publish-failures": {"publish_function", "publish_namespace_function"},
            "pushgrid-heartbeat": {"deadletter_function"},
        }[rule]
    )
