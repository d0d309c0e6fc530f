"""What settings and the local host change in delivering, and what runs in the background."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest

from pushgrid.testing.memory import FakeClock, MemoryStore
from shared.adapters.azure_storage.store import AzureStore
from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.engine.delivering.push import Push
from shared.engine.ports import Queue
from shared.metrics import Metric
from shared.wiring import local_host
from shared.wiring.function_app import FunctionApp
from tests.unit.adapters.threads.test_thread_pool import PATIENCE, no_more_threads
from tests.without_loop import at_once


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")


@pytest.mark.parametrize(("text", "is_sent"), [("", True), ("true", True), ("false", False)])
def test_the_trace_context_is_sent_unless_it_is_switched_off(
    text: str, monkeypatch: pytest.MonkeyPatch, *, is_sent: bool
) -> None:
    monkeypatch.setenv("PUSHGRID_TRACE_CONTEXT", text)

    push = cast("Push", FunctionApp().delivering.endpoints.scheduler.push)

    assert (push.new_span_id is not None) is is_sent


def test_span_ids_are_new_and_of_sixteen_digits() -> None:
    app = FunctionApp().app
    found = {app._new_span_id() for _ in range(100)}

    assert len(found) == 100
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in found)


def test_messages_in_flight_are_as_many_as_the_host_has() -> None:
    root = Path(__file__).parents[3]
    queues = json.loads((root / "host.json").read_text())["extensions"]["queues"]

    assert queues["batchSize"] + queues["newBatchThreshold"] == AZURE_STORAGE.most_in_hand


def test_it_hears_of_puts_and_says_when_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    puts: list[str] = []
    at_stop: list[object] = []
    at_end: list[object] = []
    host = SimpleNamespace(message_put=puts.append, at_stop=at_stop.append, at_end=at_end.append)
    monkeypatch.setitem(sys.modules, "__host__", host)

    function_app = FunctionApp()
    function_app.store.sender._visible(Queue.DELIVERIES)
    app, deliver = function_app.app, function_app.delivering

    assert puts == ["deliveries"]
    assert (at_stop, at_end) == ([app.stop], [app.end])
    assert app._at_stop == [deliver.endpoints.stop, function_app.outbound.stop]
    assert app._at_end[1:] == [deliver.recorder.history.write_all]


def test_at_the_end_of_the_local_host_counts_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    at_end: list[Callable[[], Awaitable[object]]] = []
    monkeypatch.setitem(
        sys.modules, "__host__", SimpleNamespace(at_end=at_end.append, at_stop=Mock())
    )
    metrics = FunctionApp().app.metrics
    flushed = Mock()
    monkeypatch.setattr(metrics, "_write", flushed)

    async def end() -> None:
        for call in at_end:
            await call()

    asyncio.run(end())

    flushed.assert_called_once()


def test_counts_are_written_in_the_background_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a thread the app is composed all the same, and the next use of it begins them."""
    slept: SimpleQueue[float] = SimpleQueue()
    goes_on = threading.Semaphore(0)

    def sleep(seconds: float) -> None:
        slept.put(seconds)
        goes_on.acquire()

    function_app, stored = FunctionApp(), MemoryStore(FakeClock(), at_once)
    function_app.store = cast("AzureStore", stored)
    monkeypatch.setattr(function_app.threads, "sleep", sleep)
    monkeypatch.setattr(function_app.threads, "monotonic", FakeClock().monotonic)
    with no_more_threads():
        function_app.app.status  # noqa: B018 - it is composed
    assert slept.empty()
    function_app.app.metrics.count(Metric.DELIVERY_SUCCESS, "orders", "crm")
    begun = slept.get(timeout=PATIENCE)
    goes_on.release()

    assert (begun, slept.get(timeout=PATIENCE)) == (10, 10)
    assert len(stored.counts.rows) == 3  # a minute, an hour, the topic's sum


def test_the_preparation_is_begun_once_with_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    function_app = FunctionApp()
    with no_more_threads():
        function_app.prepare()
    monkeypatch.setattr(function_app.threads, "begin", begun.append)

    function_app.prepare()
    function_app.prepare()

    assert [(each.func.__self__.name, each.func.__self__.period) for each in begun] == [
        ("preparation", timedelta(minutes=1))
    ]


def test_a_process_that_only_delivers_counts_once_it_has_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Any] = []
    function_app = FunctionApp()
    function_app.delivering = Mock(run=AsyncMock())
    for begin in (Mock(side_effect=RuntimeError("can't start new thread")), begun.append):
        monkeypatch.setattr(function_app.threads, "begin", begin)
        asyncio.run(function_app.deliver(b"", "deliveries"))

    assert [each.func.__self__.name for each in begun] == ["counts"]


def test_other_hosts_are_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "__host__", raising=False)

    local_host.message_put("deliveries")
    local_host.at_stop(lambda: None)
