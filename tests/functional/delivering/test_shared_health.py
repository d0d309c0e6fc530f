"""
What one process learns of an endpoint, all of them know; it is logged once. Design §2, Health.

`unit/delivery/health` has the rules.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.gate import PROBE_RECHECK, Availability, Held, Open
from shared.delivery.health.endpoint_health import Health, Hold, Observation, endpoint_id
from shared.delivery.outcome import Outcome
from shared.engine.delivering.shared_health import hold_changed
from shared.engine.ports import Table
from shared.metrics import Metric
from tests.builders import CRM, URL, a_delivery, a_message, a_subscription, a_topic
from tests.functional.delivering.failing import another_process, availability, fail, pushed
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged


@pytest.mark.parametrize(
    ("profile", "status", "events"), [("latest", 404, 1), ("latest", 503, 1), ("2020", 500, 10)]
)
def test_a_hold_is_seen_by_another_process(
    app: Deployment, profile: str, status: int, events: int
) -> None:
    """Also after a restart, and where the tenth failure comes soon after the row's last write."""
    app.directory.topics["orders"] = a_topic(profile=profile)
    fail(app, status, events)
    another_process(app)

    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 0


def test_a_subscription_that_was_created_again_begins_anew(app: Deployment) -> None:
    fail(app)
    app.subscribe(generation="g-2")
    app.pusher.script(URL, answered(200), answered(404))

    for number in (1, 2, 3):
        app.run(a_message([a_delivery(number)], generation="g-2"))
    another_process(app)
    app.run(a_message([a_delivery(4)], generation="g-2"))

    assert pushed(app) == 3
    row = app.resources.get(Table.ENDPOINT_HEALTH, "orders", "crm")
    assert row
    assert row.document["endpoint"] == endpoint_id(a_subscription(generation="g-2"))


@pytest.mark.parametrize(
    ("profile", "status", "retried", "new", "writes"),
    [
        pytest.param("latest", 200, 0, 20, 0, id="healthy"),
        pytest.param("2017", 503, 0, 2, 0, id="no holds: nobody would read it"),
        pytest.param("2019", 500, 9, 9, 0, id="failures that hold nothing"),
        pytest.param("2019", 500, 9, 10, 1, id="a hold"),
    ],
)
def test_only_a_hold_is_written(
    app: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    profile: str,
    status: int,
    retried: int,
    new: int,
    writes: int,
) -> None:
    put = Mock(wraps=app.resources.put)
    monkeypatch.setattr(app.resources, "put", put)
    app.directory.topics["orders"] = a_topic(profile=profile)
    app.subscribe()
    app.pusher.script(URL, answered(status))

    attempts = [1] * retried + [0] * new
    app.run(a_message([a_delivery(number, attempts=each) for number, each in enumerate(attempts)]))

    assert (pushed(app), put.call_count) == (retried + new, writes)


@pytest.mark.parametrize("method", ["list", "get", "put"])
def test_tables_that_fail_stop_no_delivery(app: Deployment, method: str) -> None:
    fail(app)
    app.clock.advance(10 * SECOND)
    app.resources.fail_next(method, 100)

    app.run(a_message([a_delivery(number) for number in range(3)]))

    assert (pushed(app), app.all_stored()) == (3, {})


def test_a_hold_that_could_not_be_stored_is_stored_and_logged_later(
    app: Deployment, logged: Logged
) -> None:
    app.resources.fail_next("put")
    fail(app, 404)
    assert logged("hold.began") == []
    app.clock.advance(6 * SECOND)
    app.run(a_message([a_delivery(1)]))
    another_process(app)

    app.run(a_message([a_delivery(2)]))

    assert (pushed(app), len(logged("hold.began"))) == (0, 1)


class Process:
    """What a process knows of the endpoint ``crm``."""

    def __init__(self, app: Deployment) -> None:
        self.app = app
        self.deliver = app.new_process()
        self.health = self.deliver.endpoints.of(a_subscription()).health
        self.terms = self.deliver.judge.terms.of(a_subscription())

    def sees(self, outcome: Outcome, new_events: int = 1, *, is_probe: bool = False) -> None:
        """See a push end as the loop goes on: a probe at once, any other after long."""
        now = self.app.clock.now()
        seen = Observation(
            outcome=outcome,
            new_events=new_events,
            sent_at=now if is_probe else START,
            ended_at=now,
            is_probe=is_probe,
        )
        self.app.loop.call_soon(self.health.observed, seen, self.terms)

    def claims_probe(self) -> bool:
        return self.app.loop.run(self.health.claim_probe(self.terms))


def test_a_longer_probation_is_stored_at_once(app: Deployment) -> None:
    """Two pushes were in flight: the second failure asks for more than the row holds already."""
    process = Process(app)
    for outcome in (Outcome.BUSY, Outcome.NOT_FOUND):
        process.sees(outcome)
        app.loop.settle()

    found = availability(app, a_subscription(), app.new_process())

    assert found == Held(START + 5 * MINUTE, "probation for NotFound: 5 min", Outcome.NOT_FOUND)


def test_a_failure_is_counted_once_when_another_process_wrote_first(app: Deployment) -> None:
    """Ten failures of new events begin a delay, and not fewer."""
    processes = [Process(app), Process(app)]
    for each in processes:
        each.sees(Outcome.BUSY, new_events=3)
        app.clock.advance(2 * SECOND)
    app.loop.settle()

    assert [each.health.health.failures for each in processes] == [3, 3]


def test_what_is_seen_while_a_probe_is_claimed_counts(app: Deployment) -> None:
    """A push under way since before the hold's end has failed while the row was written."""
    process = Process(app)
    process.sees(Outcome.BUSY)
    app.loop.settle()
    app.clock.advance(10 * SECOND)
    write, off_loop = process.health.store.write, process.health.off_loop

    async def fail_while_writing(call: Any) -> Any:
        if call.func == write:
            process.sees(Outcome.NOT_FOUND)
        return await off_loop(call)

    process.health.off_loop = fail_while_writing
    assert process.claims_probe()

    assert isinstance(process.health.availability(process.terms, app.clock.now() + MINUTE), Held)


def test_one_that_others_keep_from_claiming_waits_for_their_probe(app: Deployment) -> None:
    process = Process(app)
    process.sees(Outcome.BUSY)
    app.loop.settle()
    app.clock.advance(10 * SECOND)
    write, off_loop = process.health.store.write, process.health.off_loop
    row = Table.ENDPOINT_HEALTH, "orders", "crm"

    async def be_too_late(call: Any) -> Any:
        if call.func == write and (stored := app.resources.get(*row)):
            app.resources.damage(*row, stored.document)  # written by another, as it was
        return await off_loop(call)

    async def found() -> tuple[bool, Availability]:
        is_claimed = await process.health.claim_probe(process.terms)
        return is_claimed, process.health.availability(process.terms, app.clock.now())

    process.health.off_loop = be_too_late
    why = "probation for Busy: 10 s; a probe is about to begin"
    assert app.loop.run(found()) == (False, Held(app.clock.now() + PROBE_RECHECK, why))


def test_what_another_process_has_released_counts_anew(app: Deployment) -> None:
    """Nine failures before the release and one after it are not ten."""
    first, second = Process(app), Process(app)
    second.sees(Outcome.GENERIC_ERROR, new_events=9)
    first.sees(Outcome.GENERIC_ERROR, new_events=10)
    app.loop.settle()
    app.clock.advance(MINUTE)
    assert first.claims_probe()
    first.sees(Outcome.DELIVERED, is_probe=True)
    app.loop.settle()

    assert availability(app, a_subscription(), second.deliver) == Open()
    second.sees(Outcome.GENERIC_ERROR)

    assert availability(app, a_subscription(), second.deliver) == Open()


def test_what_the_row_has_is_not_seen_again(app: Deployment) -> None:
    """Seen again, a failed probe would double the delay that another process's probe began."""
    first, second = Process(app), Process(app)
    first.sees(Outcome.GENERIC_ERROR, new_events=10)
    app.loop.settle()
    for process in (first, second):
        app.clock.advance(4 * MINUTE)
        assert process.claims_probe()
        process.sees(Outcome.GENERIC_ERROR, is_probe=True)
        app.loop.settle()
    until = app.clock.now() + 4 * MINUTE
    app.clock.advance(2 * SECOND)

    found = availability(app, a_subscription(), first.deliver)

    assert found == Held(until, "delayed delivery: 4 min")


def counts(app: Deployment, metric: Metric) -> dict[str, float]:
    """Return what was counted of the subscription, by reason."""
    return {
        key[0]: by for key, by in app.metrics.of(metric).items() if key[1:] == ("orders", "crm")
    }


def test_a_probation_is_logged_when_it_begins_and_when_it_ends(
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


def test_a_hold_that_goes_on_is_logged_once(app: Deployment, logged: Logged) -> None:
    """Over failed probes, and whichever instance meets it."""
    app.directory.topics["orders"] = a_topic(profile="2020")
    fail(app, 500, events=10)
    for wait in (1, 2, 4):
        another_process(app)
        app.clock.advance(wait * MINUTE)
        fail(app, 500)
        app.run(a_message([a_delivery(1)]))

    [line] = logged("hold.began")
    assert line["reason"] == "DelayedDelivery"
    assert line["why"] == "500 GenericError at 12:00:00Z (delayed delivery: 1 min)"
    assert logged("hold.ended") == []
    another_process(app)
    app.clock.advance(8 * MINUTE)
    app.pusher.script(URL, answered(200))
    app.run(a_message([a_delivery(2)]))
    [ended] = logged("hold.ended")
    assert ended["seconds"] == (1 + 2 + 4 + 8) * 60.0


def test_two_instances_that_see_the_same_log_it_once(app: Deployment, logged: Logged) -> None:
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

    assert (len(logged("hold.began")), len(logged("hold.ended"))) == (1, 1)


def a_hold(minute: int = 0) -> Hold:
    since = START + minute * MINUTE
    return Hold(extended_at=since, until=since + MINUTE, why=f"minute {minute}", sent_at=since)


def health(hold: Hold | None = None, **members: Any) -> Health:
    return Health(**{"endpoint": "e", "hold": hold} | members)


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
        (health(OLD, endpoint="other"), health(), "its endpoint was changed", None),
        (health(OLD, endpoint="other"), health(NEW), "its endpoint was changed", NEW),
        (health(endpoint="other"), health(NEW), None, NEW),
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
    hold_changed(app.metrics, CRM, before, after, START + 10 * MINUTE)

    assert [line["because"] for line in logged("hold.ended")] == ([ended] if ended else [])
    assert [line["why"] for line in logged("hold.began")] == ([began.why] if began else [])
