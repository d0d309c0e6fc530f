"""Two apps in one thread share what is stored and nothing else, as two instances do."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar, cast
from unittest.mock import Mock

from pushgrid.testing.composition import InMemoryApp
from pushgrid.testing.memory import HeldPusher, ScriptedPusher, answered, off_loop
from shared.engine.ports import Queue, Table
from shared.metrics import Metric, Series
from shared.subscriptions.request_limits import AT_ONCE
from shared.subscriptions.subscription import SubscriptionKey
from shared.telemetry import LogLine, lines_to
from tests.builders import a_topic, noise
from tests.functional.deployment import begin_background
from tests.functional.manage.arm_api import CRM, ORDERS, URL, ArmApi, header, hook
from tests.functional.publish_requests import event, publish_request

T = TypeVar("T")


def test_what_one_app_publishes_another_delivers_and_a_third_repeats() -> None:
    api = ArmApi()
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    api.json("PUT", CRM, hook(), status=201)
    key = api.json("POST", f"{ORDERS}/listKeys")["key1"]
    pushers = [ScriptedPusher(api.clock) for _ in range(3)]
    publishing, failing, repeating = (
        InMemoryApp(pusher, api.clock, api.storage, f"app-{number}")
        for number, pusher in enumerate(pushers)
    )
    pushers[1].script(URL, answered(500))

    request = publish_request(event(1), aeg_sas_key=key)
    answer = publishing.loop.run(publishing.publish.run(request))
    (message,) = publishing.queues.texts(Queue.DELIVERIES)
    failing.work(message)
    (retry,) = failing.queues.texts(Queue.RETRIES)
    api.clock.advance(timedelta(minutes=1))
    repeating.work(retry, Queue.RETRIES)

    apps = (publishing, failing, repeating)
    assert answer.status == 200
    assert [len(pusher.sent) for pusher in pushers] == [0, 1, 1]
    for metric, counted in (
        (Metric.MATCHED, [1, 0, 0]),
        (Metric.ATTEMPT_FAIL, [0, 1, 0]),
        (Metric.DELIVERY_SUCCESS, [0, 0, 1]),
    ):
        assert [sum(app.metrics.of(metric).values()) for app in apps] == counted


def two_apps(api: ArmApi) -> tuple[InMemoryApp, InMemoryApp, str]:
    """Return two apps on one store, and a topic's key; its subscription's events are pushed."""
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    api.json("PUT", CRM, hook(), status=201)
    key = api.json("POST", f"{ORDERS}/listKeys")["key1"]
    one, two = (
        InMemoryApp(ScriptedPusher(api.clock), api.clock, api.storage, name)
        for name in ("one", "two")
    )
    return one, two, key


def publish(app: InMemoryApp, key: str, number: int) -> None:
    answer = app.loop.run(app.publish.run(publish_request(event(number), aeg_sas_key=key)))
    assert answer.status == 200


def test_each_app_has_its_own_log_also_of_what_it_does_later_and_beside() -> None:
    """Each line of a push, of rows that are lost, and of a jump goes where its app's lines go."""
    api = ArmApi()
    one, two, key = two_apps(api)
    lines: dict[InMemoryApp, list[LogLine]] = {one: [], two: []}
    for app, event_number in ((one, 1), (two, 2)):
        cast("ScriptedPusher", app.pusher).script(URL, answered(500))
        app.attempts.fail_next("write")
        with lines_to(lines[app].append):
            publish(app, key, event_number)
            (message,) = app.queues.texts(Queue.DELIVERIES)
            app.work(message)
        app.queues.stored[Queue.DELIVERIES].clear()
    api.clock.jump(timedelta(hours=1))
    with lines_to(lines[two].append):
        two.resources.list_all(Table.TOPICS)  # an answer of storage, by which the jump is seen

    told = {app: [line.event for line in lines[app]] for app in lines}
    assert told[one] == ["event.published", "delivery.attempted", "delivery.run", "attempts.lost"]
    assert told[two] == [*told[one], "clock.jumped"]


def test_each_app_writes_its_own_counts_as_time_passes() -> None:
    api = ArmApi()
    one, two, key = two_apps(api)
    for app in (one, two):
        del app.metrics  # those of the fixture stay in memory
        begin_background(app)
    publish(one, key, 1)
    publish(two, key, 2)
    publish(two, key, 3)
    for app in (one, two):
        app.loop.advance(timedelta(minutes=1))

    asked = {row.instance for row in api.counts.rows.values()}
    totals = api.counts.totals()[SubscriptionKey("orders", "crm")]
    assert [uuid.UUID(each).version for each in asked] == [5, 5]  # secret ones: forks differ
    assert totals[Series(Metric.MATCHED)].total == 3


def test_what_is_left_of_an_app_is_named_until_it_has_ended() -> None:
    api = ArmApi()
    one, two, key = two_apps(api)
    at_rest = one.leftovers()
    held = HeldPusher(one.pusher)
    held.hold(URL)
    one.push = replace(one.push, pusher=held)
    budget = one.deliver.endpoints.scheduler.budget
    publish(one, key, 1)
    (message,) = one.queues.texts(Queue.DELIVERIES)

    most, budget.pushes = budget.pushes, 0
    delivering = one.loop.create_task(one.deliver.run(message.encode(), Queue.DELIVERIES))
    one.loop.settle()
    waiting = one.leftovers()
    budget.pushes = most
    (endpoint,) = one.deliver.endpoints.known.values()
    one.loop.call_soon(endpoint.look_soon)
    one.loop.settle()
    under_way = one.leftovers()
    held.let_go()
    one.loop.run(asyncio.wait_for(delivering, 60))

    events = waiting[2]
    assert events.startswith("budget: bytes of events ")
    assert waiting == [
        "queue deliveries: messages in hand 1",
        "line orders/crm: deliveries 1, pushes 0",
        events,
        "budget: orders/crm waits for a push",
    ]
    assert under_way == [
        "task Endpoint._push",
        "queue deliveries: messages in hand 1",
        "line orders/crm: deliveries 1, pushes 1",
        "budget: pushes 1",
        events,
    ]
    assert at_rest == one.leftovers() == two.leftovers() == []


def test_apps_share_a_limit_and_no_id_whatever_they_are_called() -> None:
    api = ArmApi()
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    api.json("PUT", CRM, hook(URL, header("4", AT_ONCE, isSecret=False)), status=201)
    key = api.json("POST", f"{ORDERS}/listKeys")["key1"]
    holding = [HeldPusher(ScriptedPusher(api.clock)) for _ in range(2)]
    apps = [InMemoryApp(each, api.clock, api.storage) for each in holding]
    assert apps[0].chance.id() != apps[1].chance.id()
    for number in range(20):
        publish(apps[0], key, number)
    for number, text in enumerate(apps[0].queues.texts(Queue.DELIVERIES)):
        app = apps[number % 2]
        app.loop.create_task(app.deliver.run(text.encode(), Queue.DELIVERIES))
    for second in range(20):
        for held, app in zip(holding, apps, strict=True):
            if second in (0, 19):  # what was sent before they knew of each other is answered
                held.let_go()
                held.hold(URL)
            app.loop.settle()
        api.clock.advance(timedelta(seconds=1))

    pushes = [each for app in apps for each in app.leftovers() if "budget: pushes" in each]
    assert pushes == ["budget: pushes 2"] * 2


def test_what_waits_for_a_thread_or_for_storage_is_left_of_an_app() -> None:
    """A large request and message, a message of another version, counts, and a timer's job."""
    app, _, key = two_apps(ArmApi())
    del app.metrics  # those of the fixture stay in memory
    looks: list[list[str]] = []

    def look(call: Callable[[], T]) -> Coroutine[None, None, T]:
        looks.append(app.leftovers())
        return off_loop(call)

    app.publish = replace(app.publish, off_loop=look)
    large = publish_request(event(1, data=noise(20_000)), aeg_sas_key=key)
    app.loop.run(app.publish.run(large))
    app.loop.run(app.publish.accept(a_topic(), (), "own"))  # as events of sources are
    unwritten = app.leftovers()
    app._buffered_metrics.flush()
    (message,) = app.queues.texts(Queue.DELIVERIES)
    app.deliver = replace(app.deliver, off_loop=look)
    delivering = app.loop.create_task(app.deliver.run(message.encode(), Queue.DELIVERIES))
    app.loop.settle()
    app.loop.run(asyncio.wait_for(delivering, 60))
    app._buffered_metrics.flush()
    app.queues.fail_next("put")
    requeuing = app.loop.create_task(app.deliver.run(b'{"pushgrid":9}', Queue.RETRIES))
    app.loop.settle()
    looks.append(app.leftovers())
    app.loop.run(asyncio.wait_for(requeuing, 60))
    job = Mock(run=lambda _: looks.append(app.leftovers()))
    app.deadletter_timer.jobs = {"queues": job}
    app.deadletter_timer.run()

    assert unwritten == ["counts: unwritten 3"]
    assert looks == [
        ["publish requests 1"],
        ["publish requests 1", "counts: unwritten 3"],
        ["queue deliveries: messages in hand 1"],
        ["queue retries: messages in hand 1"],
        ["timer deadletter: job queues"],
    ]
    assert app.leftovers() == []
