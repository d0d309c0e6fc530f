"""The alerts' queries read lines that the app writes, by the names that it writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
NAMED = ("topic", "subscription", "cause")
RULES = dict(re.findall(r"name: '([\w-]+)'\n.*?query: '''\n(.*?)'''", ALERTS, re.DOTALL))


def fields(rule: str) -> set[str]:
    """Return what a rule's query reads of a line."""
    return set(re.findall(r"Line\.(\w+)", RULES[rule]))


def named(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what an alert's mail names: the dimensions of its rule."""
    return line["topic"], line["subscription"], line.get("cause")


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


def test_the_rule_about_dead_letters_counts_events(app: Deployment, logged: Logged) -> None:
    tried = [a_delivery(0), a_delivery(1, attempts=1, last=an_attempt())]
    app.put(Queue.DEADLETTERS, a_message(tried, dead_letter=a_note()))
    app.write_dead_letters.run(app.in_a_minute())

    [line] = logged(event("pushgrid-dead-letters"))

    assert fields("pushgrid-dead-letters") == {"event", "count", *NAMED}
    assert "sum(tolong(Line.count) * ItemCount)" in RULES["pushgrid-dead-letters"]
    assert line["count"] == 2
    assert named(line) == ("orders", "crm", "503 Busy")


def test_the_rule_about_dropped_events_counts_events(app: Deployment, logged: Logged) -> None:
    app.run(a_message([a_delivery(0), a_delivery(1)]))  # of a subscription that is deleted

    [line] = logged(event("pushgrid-dropped-events"))

    assert fields("pushgrid-dropped-events") == {"event", "count", "reason", *NAMED}
    assert "sum(tolong(Line.count) * ItemCount)" in RULES["pushgrid-dropped-events"]
    assert line["count"] == 2
    assert named(line) == ("orders", "crm", None)
    assert line["reason"]


def test_a_dropped_event_is_logged_with_the_cause(app: Deployment, logged: Logged) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(400))
    app.run(a_message())

    [line] = logged(event("pushgrid-dropped-events"))

    assert named(line) == ("orders", "crm", "400 BadRequest")


def test_the_rule_about_held_endpoints_counts_holds(app: Deployment, logged: Logged) -> None:
    fail(app, 404)

    [line] = logged(event("pushgrid-held-endpoints"))
    assert named(line) == ("orders", "crm", "404 NotFound")
    assert fields("pushgrid-held-endpoints") == {"event", *NAMED}


def test_the_rule_about_waiting_events_reads_their_number(app: Deployment, logged: Logged) -> None:
    """test_housekeeping.py has what is counted."""
    failed = Series(Metric.ATTEMPT_FAIL, (("Error", "Busy"), ("ErrorType", "ServerError")))
    app.counts.write([a_minute({Series(Metric.MATCHED): 3, failed: 1}, span=Span.HOUR)])
    app.put(Queue.RETRIES, a_message())
    queues = WatchQueues(watch=app.queues, clock=app.clock)
    waiting = WatchWaiting(queues=queues, counts=app.counts, state=app.resources, clock=app.clock)
    for job in (queues, waiting):
        job.run(app.in_a_minute())

    [line] = logged(event("pushgrid-waiting-events"))

    assert fields("pushgrid-waiting-events") == {"event", "events", *NAMED}
    assert (line["events"], *named(line)) == (3, "orders", "crm", "Busy")


def test_the_rule_about_the_oldest_message_reads_seconds(app: Deployment, logged: Logged) -> None:
    app.put(Queue.RETRIES, a_message())
    app.clock.advance(20 * MINUTE)
    WatchQueues(watch=app.queues, clock=app.clock).run(app.in_a_minute())

    [line] = logged(event("pushgrid-oldest-message"))

    assert fields("pushgrid-oldest-message") == {"event", "oldest_seconds"}
    assert "max(toreal(Line.oldest_seconds)) / 60" in RULES["pushgrid-oldest-message"]
    assert line["oldest_seconds"] == 1200.0


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
