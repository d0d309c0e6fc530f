"""What one process learns of an endpoint, all of them know. Design §2, Health."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.health.availability import Held
from shared.delivery.health.endpoint_health import Observation, endpoint_id
from shared.delivery.outcome import Outcome
from shared.engine.ports import Resource, Table
from tests.builders import (
    URL,
    a_delivery,
    a_message,
    a_subscription,
    a_topic,
)
from tests.functional.delivering.failing import (
    another_process,
    availability,
    fail,
    pushed,
)
from tests.functional.deployment import MINUTE, SECOND, Deployment


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


def test_a_corrected_endpoint_is_not_held_for_the_other_ones_failures(app: Deployment) -> None:
    fail(app)
    app.subscribe(endpoint_url="https://crm.example/corrected")

    app.run(a_message([a_delivery(1)]))

    assert app.pusher.sent[-1].request.url == "https://crm.example/corrected"


def test_a_healthy_delivery_writes_nothing(app: Deployment, monkeypatch: Any) -> None:
    puts: list[object] = []
    monkeypatch.setattr(app.resources, "put", lambda *args: puts.append(args))
    app.subscribe()

    app.run(a_message([a_delivery(number) for number in range(20)]))

    assert (pushed(app), puts) == (20, [])


def test_an_edition_without_holds_stores_no_health(app: Deployment, monkeypatch: Any) -> None:
    """Nobody would read it, and failing storage would only cost time."""
    puts: list[object] = []
    monkeypatch.setattr(app.resources, "put", lambda *args: puts.append(args))
    app.directory.topics["orders"] = a_topic(profile="2017")

    fail(app, events=2)

    assert puts == []


def test_only_a_hold_is_written(app: Deployment, monkeypatch: Any) -> None:
    puts: list[object] = []
    put = app.resources.put

    def counted(*args: Any) -> Resource:
        puts.append(args)
        return put(*args)

    monkeypatch.setattr(app.resources, "put", counted)
    app.directory.topics["orders"] = a_topic(profile="2019")
    app.subscribe()
    app.pusher.script(URL, answered(500))

    app.run(a_message([a_delivery(number, attempts=1) for number in range(9)]))
    app.run(a_message([a_delivery(number) for number in range(8)]))

    assert (pushed(app), len(puts)) == (17, 0)
    app.run(a_message([a_delivery(number) for number in (8, 9)]))
    assert (pushed(app), len(puts)) == (19, 1)


@pytest.mark.parametrize("method", ["list", "get", "put"])
def test_tables_that_fail_stop_no_delivery(app: Deployment, method: str) -> None:
    fail(app)
    app.clock.advance(10 * SECOND)
    app.resources.fail_next(method, 100)

    app.run(a_message([a_delivery(number) for number in range(3)]))

    assert (pushed(app), app.all_stored()) == (3, {})


def test_a_hold_that_could_not_be_stored_is_stored_later(app: Deployment) -> None:
    app.resources.fail_next("put")
    fail(app, 404)
    app.run(a_message([a_delivery(1)]))
    app.clock.advance(5 * SECOND)
    app.run(a_message([a_delivery(1)]))
    another_process(app)

    app.run(a_message([a_delivery(2)]))

    assert pushed(app) == 0


def test_what_is_known_is_bounded(app: Deployment) -> None:
    app.pusher.script(URL, answered(503))
    for number in range(10_050):
        app.deliver.endpoints.of(a_subscription(name=f"crm-{number}"))

    assert len(app.deliver.endpoints) == 10_000


def test_a_longer_probation_is_stored_at_once(app: Deployment) -> None:
    """Two pushes were in flight: the second failure asks for more than the row holds already."""
    subscription = app.subscribe()
    terms = app.deliver.parts.terms.of(subscription)
    health, now = app.deliver.endpoints.of(subscription).health, app.clock.now
    for outcome in (Outcome.BUSY, Outcome.NOT_FOUND):
        seen = Observation(outcome=outcome, new_events=1, sent_at=START, ended_at=now())
        assert health.observed(seen, terms)
        app.loop.run(health.save())

    found = availability(app, subscription, app.new_process())

    assert found == Held(START + 5 * MINUTE, "probation for NotFound: 5 min", Outcome.NOT_FOUND)


def test_a_failure_is_counted_once_when_another_process_wrote_first(app: Deployment) -> None:
    """Ten failures of new events begin a delay, and not fewer."""
    subscription = app.subscribe()
    terms = app.deliver.parts.terms.of(subscription)
    processes = [app.new_process() for _ in range(2)]
    health, other = (each.endpoints.of(subscription).health for each in processes)
    for each in (health, other):
        seen = Observation(
            outcome=Outcome.BUSY, new_events=3, sent_at=START, ended_at=app.clock.now()
        )
        assert each.observed(seen, terms)
        app.clock.advance(2 * SECOND)
    for each in (health, other):
        app.loop.run(each.save())

    assert (health.health.failures, other.health.failures) == (3, 3)


def test_what_is_seen_while_a_probe_is_claimed_counts(app: Deployment) -> None:
    """A push under way since before the hold's end has failed while the row was written."""
    subscription = app.subscribe()
    terms = app.deliver.parts.terms.of(subscription)
    health = app.new_process().endpoints.of(subscription).health

    def fails(outcome: Outcome) -> Observation:
        now = app.clock.now()
        return Observation(outcome=outcome, new_events=1, sent_at=now, ended_at=now)

    health.observed(fails(Outcome.BUSY), terms)
    app.loop.run(health.save())
    app.clock.advance(10 * SECOND)
    write = health.store.write

    async def write_meanwhile(*args: Any) -> Any:
        health.observed(fails(Outcome.NOT_FOUND), terms)
        return await write(*args)

    health.store = SimpleNamespace(read=health.store.read, write=write_meanwhile)
    assert app.loop.run(health.claim_probe(terms))

    assert isinstance(health.availability(terms, app.clock.now() + MINUTE), Held)


def test_what_the_row_has_is_not_seen_again(app: Deployment) -> None:
    """What was written with the claim of a probe is not applied to later rows."""
    subscription = app.subscribe()
    terms = app.deliver.parts.terms.of(subscription)
    health = app.new_process().endpoints.of(subscription).health
    now = app.clock.now()
    seen = Observation(outcome=Outcome.BUSY, new_events=1, sent_at=now, ended_at=now)
    app.resources.fail_next("put")
    health.observed(seen, terms)
    app.loop.run(health.save())
    app.clock.advance(10 * SECOND)

    assert app.loop.run(health.claim_probe(terms))

    assert health._unwritten == []
