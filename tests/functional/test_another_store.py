"""A store that hides messages for ever, takes large ones, and has no poison queues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from pushgrid.testing import Topic
from pushgrid.testing.driven_app import DrivenApp
from pushgrid.testing.memory import START
from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.delivery.profiles import PROFILES
from shared.engine.ports import Queue, StoreTraits
from shared.events.topic import InputSchema
from shared.http import HttpRequest
from tests.builders import a_delivery, a_message, noise, text
from tests.functional.deployment import MINUTE, Deployment
from tests.functional.publish_requests import event, publish

HOUR = timedelta(hours=1)
ANOTHER = StoreTraits(
    message_size=1024 * 1024,
    most_in_hand=2,
    hiding=None,
    has_poison_queues=False,
    has_other_queues=False,
    keeps_attempts=True,
)
QUEUES = {Queue.DELIVERIES, Queue.RETRIES, Queue.DEADLETTERS}


@pytest.fixture
def app() -> Deployment:
    return Deployment(ANOTHER)


@pytest.fixture
def driven() -> Iterator[DrivenApp]:
    with ExitStack() as until_end:
        yield DrivenApp(until_end, ANOTHER)


def orders(app: DrivenApp) -> Topic:
    app.arm("PUT", "topics/orders", {"location": "testing"})
    schema, profile = InputSchema.EVENT_GRID, PROFILES["latest"]
    return Topic(app, "orders", None, input_schema=schema, profile=profile)


def test_an_event_that_waits_three_hours_is_delivered_without_wake_timer(
    driven: DrivenApp,
) -> None:
    crm = orders(driven).subscribe("crm", answers=[*[500] * 8, 200])

    crm.topic.publish({"eventType": "Shop.OrderPlaced"})
    driven.advance(timedelta(hours=10))

    times = [each.at for each in crm.attempts]
    assert max(later - sooner for sooner, later in pairwise(times)) >= 3 * HOUR, times
    assert (len(crm.received), driven.timers) == (1, ("deadletter",))
    assert driven.queues.made <= QUEUES
    assert not any(driven.queues.stored.values())


@pytest.mark.parametrize("is_held", [False, True])
def test_a_message_hides_as_long_as_it_waits(app: Deployment, *, is_held: bool) -> None:
    wait = timedelta(days=10, milliseconds=1)

    app.loop.run(app.requeue.at_due(a_message(due=START + wait), is_held=is_held))

    assert app.queues.waits(Queue.RETRIES) == [wait]


@pytest.mark.parametrize(("store", "parked"), [(ANOTHER, False), (AZURE_STORAGE, True)])
def test_a_large_event_is_in_its_message(store: StoreTraits, *, parked: bool) -> None:
    app = Deployment(store)
    app.subscribe()

    assert publish(app, event(data={"text": noise(100_000)})).status == 200

    (message,) = app.on(Queue.DELIVERIES)
    assert (bool(app.payloads.blobs), message.deliveries[0].text is None) == (parked, parked)


def test_a_large_event_is_replayed_in_its_message(driven: DrivenApp) -> None:
    crm = orders(driven).subscribe("crm", answers=[400, 200])
    crm.topic.publish({"eventType": "Shop.OrderPlaced", "data": noise(100_000)})
    driven.advance(HOUR)

    driven.arm("POST", "replays", {})
    driven.advance(HOUR)

    assert (len(crm.received), driven.payloads.blobs) == (1, {})


def test_a_process_counts_with_as_many_messages_as_it_gets(app: Deployment) -> None:
    assert {each.most for each in app.deliver.in_hand.values()} == {ANOTHER.most_in_hand}


def test_there_are_no_other_queues_timers_or_jobs(app: Deployment) -> None:
    app.preparation.run()
    app.deadletter_timer.run()
    app.clock.advance(20 * MINUTE)
    app.deadletter_timer.run()

    answer = app.status.run(
        HttpRequest(method="GET", url="", headers={}, params={"what": "health"})
    )

    health = json.loads(answer.body)
    assert (health["status"], health["queues"].keys()) == ("healthy", QUEUES)
    assert "poison" not in app.deadletter_timer.jobs
    assert app.queues.made == QUEUES


@pytest.mark.parametrize(("size", "messages"), [(48 * 1024, 2), (256 * 1024, 1)])
def test_what_waits_is_merged_into_messages_of_the_stores_size(size: int, messages: int) -> None:
    app = Deployment(replace(AZURE_STORAGE, message_size=size))
    for number in range(2):
        large = a_delivery(number, text=text(data=noise(40_000, number)))
        app.put(Queue.WAITING, a_message([large]))

    app.wake.run(app.in_a_minute())

    assert app.all_stored() == {Queue.RETRIES: messages}
