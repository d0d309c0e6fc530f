"""For how long publishing and delivering go by what they knew, where it can't be read anew."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from pushgrid.testing.memory import answered, off_loop
from shared.adapters.threads import SystemThreads, ThreadPool
from shared.engine.caching.resource_cache import ResourceCache
from shared.engine.ports import Queue, Resource, Table
from shared.errors import StorageUnavailable
from shared.tasks import Tasks
from tests.builders import a_delivery, a_message, encode
from tests.functional.delivering.product import Product, a_product
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.functional.manage.arm_api import CRM, ORDERS, URL, hook
from tests.functional.publish_requests import code, event, publish, publish_request

T = TypeVar("T")

CACHE = 5  # seconds, of the product


@pytest.fixture
def product(app: Deployment) -> Product:
    product = a_product(app)
    product.api.pusher.script(URL, answered(200))
    return product


@contextmanager
def lost_tables(app: Deployment) -> Iterator[None]:
    """Let tables be out of reach, and queues not."""

    def fail(*_: object) -> None:
        raise StorageUnavailable

    with pytest.MonkeyPatch.context() as patched:
        for verb in ("get", "list", "put"):
            patched.setattr(app.resources, verb, fail)
        yield


def change(product: Product, how: str) -> None:
    if how == "deleted":
        product.api.call("DELETE", CRM)
    elif how == "paused":
        product.api.json("POST", f"{CRM}/pause")
    else:
        product.api.json("PUT", CRM, hook("https://other.example/"), status=201)


@pytest.mark.parametrize("how", ["deleted", "paused", "given another endpoint"])
def test_what_a_process_cannot_see_is_pushed_for_twice_the_cache_s_time(
    app: Deployment, product: Product, how: str
) -> None:
    """The rest comes back each minute, unattempted, until tables are within reach."""
    other = product.another_instance()
    for number in range(60):
        product.publish(number)
    texts = app.queues.texts(Queue.DELIVERIES)
    app.queues.stored.clear()
    app.work(texts[0], by=other)
    change(product, how)
    product.api.pusher.sent.clear()

    with lost_tables(app):
        for text in texts[1:]:
            app.clock.advance(SECOND)
            app.work(text, by=other)

    to = [sent.request.url for sent in product.api.pusher.sent]
    assert to == [URL] * (2 * CACHE - 1)
    waiting = [(wait, part.deliveries[0].attempts) for wait, part in app.parts(Queue.RETRIES)]
    assert len(waiting) == 60 - 2 * CACHE
    assert waiting[-1] == (MINUTE, 0)
    assert {attempts for _, attempts in waiting} == {0}
    product.api.pusher.sent.clear()
    product.play(300, other)
    assert URL not in [sent.request.url for sent in product.api.pusher.sent]


def test_publishing_goes_on_for_twice_the_cache_s_time(
    app: Deployment, product: Product, logged: Logged
) -> None:
    """Then a subscription that was made meanwhile could get nothing of what is answered 200."""
    key = product.api.json("POST", f"{ORDERS}/listKeys")["key1"]
    product.publish(0)
    answers = []
    with lost_tables(app):
        for number in range(1, 61):
            app.clock.advance(SECOND)
            answers.append(publish(app, event(number), aeg_sas_key=key))

    statuses = [each.status for each in answers]
    assert statuses == [200] * (2 * CACHE - 1) + [503] * (61 - 2 * CACHE)
    assert code(answers[-1]) == "ServiceUnavailable"
    assert app.all_stored() == {Queue.DELIVERIES: 2 * CACHE}
    (line,) = logged("topic.unread")
    assert line["topic"] == "orders"
    assert not any(each.get("unknown_topic") for each in logged("publish.refused"))
    app.clock.advance(2 * SECOND)
    product.publish(61)


def test_of_two_requests_after_an_idle_time_both_see_what_is_stored(
    app: Deployment, product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one reads, the other waits: a subscription made 50 minutes ago gets both events."""
    cache = ResourceCache(
        app.resources,
        cache_for=timedelta(seconds=CACHE),
        threads=SystemThreads(app.clock.monotonic),
        off_loop=ThreadPool(2, "topics"),
        tasks=Tasks(),
    )
    run = replace(
        app.publish, topics=cache, subscriptions=cache, off_loop=ThreadPool(2, "publish")
    ).run
    key = product.api.json("POST", f"{ORDERS}/listKeys")["key1"]
    requests = [publish_request(event(number), aeg_sas_key=key) for number in range(3)]
    assert asyncio.run(run(requests[0])).status == 200
    erp = hook("https://erp.example/")
    product.api.json("PUT", f"{ORDERS}/eventSubscriptions/erp", erp, status=201)
    app.clock.advance(50 * MINUTE)
    app.queues.stored.clear()
    read, begun, may_end = app.resources.list, threading.Event(), threading.Event()

    def held(table: Table, partition: str) -> Sequence[Resource]:
        begun.set()
        assert may_end.wait(30)
        return read(table, partition)

    monkeypatch.setattr(app.resources, "list", held)

    async def publish_both() -> list[Any]:
        first = asyncio.create_task(run(requests[1]))
        assert await asyncio.to_thread(begun.wait, 30)
        second = asyncio.create_task(run(requests[2]))
        await asyncio.wait({second}, timeout=0.2)  # Were it to go by the old view, it would by now.
        may_end.set()
        return [await first, await second]

    assert [answer.status for answer in asyncio.run(publish_both())] == [200, 200]
    got = sorted(each.subscription for each in app.on(Queue.DELIVERIES) for _ in each.deliveries)
    assert got == ["crm", "crm", "erp", "erp"]


def test_a_topic_that_does_not_exist_is_no_topic_that_can_not_be_read(
    app: Deployment,
) -> None:
    a_product(app)
    statuses = [publish(app, event(0), topic="nowhere").status]
    with lost_tables(app):
        statuses.append(publish(app, event(0), topic="nowhere").status)
        app.clock.advance(SECOND)
        statuses.append(publish(app, event(0), topic="nowhere").status)
    app.clock.advance(2 * SECOND)
    statuses.append(publish(app, event(0), topic="nowhere").status)

    assert statuses == [401, 401, 503, 401]


@pytest.mark.parametrize("use", ["publish", "deliver"])
def test_who_waits_for_a_topic_to_be_read_takes_no_thread(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    """Else a topic whose partition hangs would take those of all others."""
    app.subscribe()
    seen: list[str] = []

    async def ready(name: str) -> None:
        seen.append(f"{name} is waited for")
        await asyncio.sleep(5)

    async def on_thread(call: Callable[[], T]) -> T:
        seen.append("a thread")
        return await off_loop(call)

    monkeypatch.setattr(app.directory, "ready", ready)
    monkeypatch.setattr(app.directory, "knows", lambda *_, **__: False)
    app.publish = replace(app.publish, off_loop=on_thread)
    app.deliver = replace(app.deliver, off_loop=on_thread)
    if use == "publish":
        app.loop.create_task(app.publish.run(publish_request(event(0))))
        app.loop.settle()
    else:
        app.begin(a_message([a_delivery(0)]))

    assert seen == ["orders is waited for"]
    app.loop.advance(5 * SECOND)
    assert seen == ["orders is waited for", "a thread"]


def test_what_is_in_line_goes_back_when_its_subscription_can_not_be_read(app: Deployment) -> None:
    """As all that comes then: nobody knows whether it is still wanted."""
    app.limit_pushes(1)
    app.subscribe()
    app.pusher.takes = 20 * SECOND
    task = app.begin(a_message([a_delivery(number) for number in range(32)]))
    app.directory.fail_next("subscription", 1000)

    app.loop.advance(2 * SECOND)

    ((due, numbers),) = app.waiting(Queue.RETRIES)
    assert (MINUTE - 2 * SECOND <= due <= MINUTE, numbers) == (True, list(range(1, 32)))
    assert {each.attempts for each in app.on(Queue.RETRIES)[0].deliveries} == {0}
    app.loop.advance(MINUTE)
    assert task.done()
    assert len(app.pusher.sent) == 1
    assert encode(app.on(Queue.RETRIES)[0])
