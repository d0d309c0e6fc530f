"""That a hold begins and ends is logged and counted, once over all instances. Design §2, Health."""

from __future__ import annotations

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.health.endpoint_health import Health, Hold
from shared.engine.delivering.shared_health import HoldRecords
from shared.metrics import Metric
from shared.subscriptions.subscription import SubscriptionKey
from tests.builders import URL, a_delivery, a_message, a_topic
from tests.functional.delivering.failing import another_process, fail
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

CRM = ("orders", "crm")


def counts(app: Deployment, metric: Metric) -> dict[str, float]:
    """Return what was counted of the subscription, by reason."""
    return {key[0]: by for key, by in app.metrics.of(metric).items() if key[1:] == CRM}


def test_a_probation_is_told_when_it_begins_and_when_it_ends(
    app: Deployment, logged: Logged
) -> None:
    fail(app, 404)
    assert logged("hold.ended") == []
    app.clock.advance(5 * MINUTE)
    app.run(a_message([a_delivery(1)]))

    [began], [ended] = logged("hold.began"), logged("hold.ended")
    assert began == {
        "event": "hold.began",
        "topic": "orders",
        "subscription": "crm",
        "reason": "Probation",
        "cause": "404 NotFound",
        "why": "404 NotFound at 12:00:00Z (probation for NotFound: 5 min)",
        "until": "2026-02-09T12:05:00.0000000Z",
    }
    assert ended == {
        "event": "hold.ended",
        "topic": "orders",
        "subscription": "crm",
        "reason": "Probation",
        "because": "its endpoint accepted an event",
        "seconds": 300.0,
    }
    assert counts(app, Metric.HOLDS_BEGAN) == {"Probation": 1}
    assert counts(app, Metric.HOLDS_ENDED) == {"Probation": 1}


def test_a_hold_that_goes_on_is_told_once(app: Deployment, logged: Logged) -> None:
    """Over failed probes, and whichever instance meets it."""
    app.directory.topics["orders"] = a_topic(profile="2020")
    fail(app, 500, events=10)
    for wait in (1, 2, 4):
        another_process(app)
        app.clock.advance(wait * MINUTE)
        fail(app, 500)
        app.run(a_message([a_delivery(1)]))

    [line] = logged("hold.began")
    assert (line["reason"], line["why"]) == (
        "DelayedDelivery",
        "500 GenericError at 12:00:00Z (delayed delivery: 1 min)",
    )
    assert logged("hold.ended") == []
    another_process(app)
    app.clock.advance(8 * MINUTE)
    app.pusher.script(URL, answered(200))
    app.run(a_message([a_delivery(2)]))
    [ended] = logged("hold.ended")
    assert ended["seconds"] == (1 + 2 + 4 + 8) * 60.0


def test_two_instances_that_see_the_same_tell_it_once(app: Deployment, logged: Logged) -> None:
    """The second finds the row written when it stores its own."""
    app.subscribe()
    app.pusher.script(URL, answered(404))
    app.run(a_message([a_delivery(0)]))
    first = app.deliver
    another_process(app)
    app.clock.advance(SECOND)
    app.resources.fail_next("list")
    app.run(a_message([a_delivery(1)]))
    app.clock.advance(6 * MINUTE)
    app.pusher.script(URL, answered(200))
    app.run(a_message([a_delivery(2)]))
    app.clock.advance(2 * SECOND)
    app.deliver = first
    app.run(a_message([a_delivery(3)]))

    assert len(logged("hold.began")) == 1
    assert len(logged("hold.ended")) == 1


def test_a_hold_that_could_not_be_stored_is_told_when_it_is(
    app: Deployment, logged: Logged
) -> None:
    app.resources.fail_next("put")
    fail(app, 404)
    assert logged("hold.began") == []

    app.clock.advance(6 * SECOND)
    app.run(a_message([a_delivery(1)]))

    assert len(logged("hold.began")) == 1


def a_hold(minute: int = 0) -> Hold:
    since = START + minute * MINUTE
    return Hold(since=since, until=since + MINUTE, why=f"minute {minute}", sent_at=since)


def health(hold: Hold | None = None, **members: object) -> Health:
    return Health(endpoint="e", hold=hold, **members)  # type: ignore[arg-type]


OLD, NEW = a_hold(), a_hold(5)
RELEASED = START + 2 * MINUTE


@pytest.mark.parametrize(
    ("before", "after", "ended", "began"),
    [
        (None, health(), None, None),
        (None, health(NEW), None, NEW),
        (health(), health(NEW), None, NEW),
        (health(OLD), health(OLD), None, None),
        (health(OLD), health(NEW), None, None),  # a failed probe prolongs it
        (health(OLD), health(released_at=RELEASED), "its endpoint accepted an event", None),
        (health(OLD), health(released_at=RELEASED, failures=3), "its time is over", None),
        (health(OLD), health(NEW, released_at=RELEASED), "its endpoint accepted an event", NEW),
        (Health(endpoint="other", hold=OLD), health(), "its endpoint was changed", None),
        (Health(endpoint="other", hold=OLD), health(NEW), "its endpoint was changed", NEW),
        (Health(endpoint="other"), health(NEW), None, NEW),
    ],
)
def test_what_a_change_of_health_ends_and_begins(
    app: Deployment,
    logged: Logged,
    before: Health | None,
    after: Health,
    ended: str | None,
    began: Hold | None,
) -> None:
    records = HoldRecords(app.metrics, SubscriptionKey(*CRM))

    records.changed(before, after, START + 10 * MINUTE)

    assert [line["because"] for line in logged("hold.ended")] == ([ended] if ended else [])
    assert [line["why"] for line in logged("hold.began")] == ([began.why] if began else [])
