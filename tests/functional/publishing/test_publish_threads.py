"""Which requests are checked on the event loop, and which on threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest

from shared.adapters.off_loop import Threads
from shared.adapters.resource_cache import ResourceCache
from shared.engine.ports import Resource, Table
from shared.engine.publishing.publish import QUICK_BODY, QUICK_MATCH
from shared.http import HttpRequest
from shared.subscriptions.advanced_filter import AdvancedFilter, FilterOperator
from shared.subscriptions.filters import EventFilter
from tests.functional.deployment import Deployment
from tests.functional.manage.arm_api import TOPICS, ArmApi, hook
from tests.functional.publish_requests import event, publish_request

T = TypeVar("T")
CACHE_FOR = 5.0  # seconds
OFF_LOOP = Threads(4, "test")
PATIENCE = 20  # seconds after which a test that hangs fails
REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("request")


def of_size(size: int) -> HttpRequest:
    spare = size - len(publish_request(event(data="")).body)
    request = publish_request(event(data="x" * spare))
    assert len(request.body) == size
    return request


@pytest.mark.parametrize(
    ("request_", "status", "hops"),
    [
        pytest.param(publish_request(event()), 200, 0, id="small and cached"),
        pytest.param(of_size(QUICK_BODY), 200, 0, id="as large as may be"),
        pytest.param(of_size(QUICK_BODY + 1), 200, 1, id="larger"),
        pytest.param(publish_request(event(), authorization="Bearer x"), 200, 1, id="with a token"),
        pytest.param(publish_request(event(), topic="other"), 401, 1, id="not cached"),
        pytest.param(publish_request(event(), aeg_sas_key="no"), 401, 0, id="a wrong key"),
    ],
)
def test_what_is_small_and_cached_is_answered_without_a_thread(
    app: Deployment, request_: HttpRequest, status: int, hops: int
) -> None:
    app.subscribe()
    hopped = []

    async def off_loop(call: Callable[[], T]) -> T:
        hopped.append(call)
        return call()

    publish = replace(app.publish, off_loop=off_loop)

    assert (app.loop.run(publish.run(request_)).status, len(hopped)) == (status, hops)


@pytest.mark.parametrize(
    ("subscriptions", "values", "hops"), [(16, 0, 0), (17, 0, 1), (1, 14, 0), (1, 15, 1)]
)
def test_what_takes_many_comparisons_takes_a_thread(
    app: Deployment, subscriptions: int, values: int, hops: int
) -> None:
    """Each subscription is one, and so are each of its filters and each of their values."""
    texts = tuple(map(str, range(values)))
    test = AdvancedFilter(operator=FilterOperator.STRING_CONTAINS, key=("data", "x"), values=texts)
    wanted = EventFilter(advanced=(test,) if values else ())
    for number in range(subscriptions):
        app.subscribe(name=f"crm-{number}", filter=wanted)
    hopped = []

    async def off_loop(call: Callable[[], T]) -> T:
        hopped.append(call)
        return call()

    publish = replace(app.publish, off_loop=off_loop)
    app.loop.run(publish.run(of_size(QUICK_MATCH // 16)))

    assert len(hopped) == hops


class Cached:
    """The topics ``orders`` and ``slow`` in a cache, over storage that may answer late."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.app = Deployment()
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()
        self.readers: set[int] = set()
        self._api = ArmApi()
        self._keys = {name: self._create(f"{TOPICS}/{name}") for name in ("orders", "slow")}
        self._get = self._api.resources.get
        monkeypatch.setattr(self._api.resources, "get", self._read)
        cache = ResourceCache(
            self._api.resources,
            cache_for=timedelta(seconds=CACHE_FOR),
            clock=self.app.clock.monotonic,
        )
        self._publish = replace(
            self.app.publish,
            topics=cache,
            subscriptions=cache,
            off_loop=OFF_LOOP,
        )

    def _create(self, topic: str) -> str:
        self._api.json("PUT", topic, {"location": "westeurope"}, status=201)
        self._api.json("PUT", f"{topic}/eventSubscriptions/crm", hook(), status=201)
        return str(self._api.json("POST", f"{topic}/listKeys")["key1"])

    def _read(self, table: Table, partition: str, name: str) -> Resource | None:
        self.readers.add(threading.get_ident())
        if name == "slow":
            self.begun.set()
            assert self.may_end.wait(PATIENCE)
        return self._get(table, partition, name)

    async def publish(self, topic: str) -> int:
        request = publish_request(event(), topic=topic, aeg_sas_key=self._keys[topic])
        return (await self._publish.run(request)).status


@pytest.mark.parametrize("is_known", [False, True], ids=["not cached", "expired"])
def test_a_slow_read_keeps_no_cached_topics_requests_waiting(
    monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    """Storage is read on threads only."""
    cached = Cached(monkeypatch)

    async def publish_both() -> tuple[int, int]:
        if is_known:
            assert await cached.publish("slow") == 200
            cached.app.clock.advance(timedelta(seconds=CACHE_FOR))
        assert await cached.publish("orders") == 200
        cached.begun.clear()
        cached.may_end.clear()
        slow = asyncio.create_task(cached.publish("slow"))
        assert await asyncio.to_thread(cached.begun.wait, PATIENCE)
        quick = await cached.publish("orders")
        assert not slow.done()
        cached.may_end.set()
        return quick, await slow

    assert asyncio.run(publish_both()) == (200, 200)
    assert threading.get_ident() not in cached.readers


def test_a_thread_has_the_context_of_its_request() -> None:
    async def run(name: str) -> tuple[str, bool]:
        REQUEST.set(name)
        return await OFF_LOOP(lambda: (REQUEST.get(), _is_main()))

    async def run_both() -> list[tuple[str, bool]]:
        return list(await asyncio.gather(run("one"), run("two")))

    assert asyncio.run(run_both()) == [("one", False), ("two", False)]


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
