"""Lines that Microsoft's host would drop are printed; its worker is imitated by its names."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from contextvars import Context
from types import ModuleType
from typing import Any, cast

import pytest

from shared import telemetry
from shared.engine.delivering.deliver import Deliver
from shared.settings import LogFormat
from shared.telemetry import LOGGER
from shared.wiring import worker_log
from shared.wiring.function_app import FunctionApp

_current = threading.local()


class ContextEnabledTask(asyncio.Task[Any]):
    """Stands for the worker's, which has the invocation of the task that makes it."""

    def __init__(self, coroutine: Any, loop: Any, context: Context | None = None) -> None:
        super().__init__(coroutine, loop=loop, context=context)
        maker = asyncio.current_task(loop)
        self.invocation_id: str | None = getattr(maker, "invocation_id", None)


def _task(loop: Any, coroutine: Any, context: Context | None = None) -> ContextEnabledTask:
    return ContextEnabledTask(coroutine, loop, context)


def _invocation_id() -> str | None:
    """Return what the worker takes for the invocation; nobody resets that of its loop's thread."""
    with suppress(RuntimeError):
        if found := getattr(asyncio.current_task(), "invocation_id", None):
            return str(found)
    return getattr(_current, "invocation_id", None)


class AsyncLoggingHandler(logging.Handler):
    """Stands for the worker's: sends lines to the host, which keeps those with an invocation."""

    def emit(self, record: logging.LogRecord) -> None:
        if invocation := _invocation_id():
            self.kept.append((invocation, record.getMessage()))

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[str, str]] = []


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[AsyncLoggingHandler]:
    """The worker's handler on the root logger, and our printing beside it."""
    module = ModuleType("the_worker.dispatcher")
    module.get_current_invocation_id = _invocation_id  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(AsyncLoggingHandler, "__module__", module.__name__)
    handler = AsyncLoggingHandler()
    root, ours = logging.getLogger(), logging.getLogger(LOGGER)
    ours.setLevel(logging.INFO)
    root.addHandler(handler)
    for _ in range(2):  # functions
        FunctionApp().load()
    yield handler
    ours.setLevel(logging.NOTSET)
    root.removeHandler(handler)
    for each in [each for each in ours.handlers if isinstance(each, worker_log.ConsoleLines)]:
        ours.removeHandler(each)


def test_a_line_of_an_invocation_is_not_printed(
    worker: AsyncLoggingHandler, capsys: pytest.CaptureFixture[str]
) -> None:
    _current.invocation_id = "i-1"
    try:
        telemetry.info("event.published", events=2)
    finally:
        _current.invocation_id = None

    assert worker.kept == [("i-1", '{"event":"event.published","events":2}')]
    assert capsys.readouterr() == ("", "")


def test_a_line_of_a_task_that_outlives_its_invocation_is_printed_once(
    worker: AsyncLoggingHandler,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def outlives(ended: asyncio.Event) -> None:
        await ended.wait()
        telemetry.info("outlives")

    async def of_its_own() -> None:
        telemetry.info("of its own")

    class Work:
        async def run(self, *_: object) -> None:
            loop = asyncio.get_running_loop()
            tasks.append(loop.create_task(outlives(ended), context=Context()))
            await asyncio.gather(of_its_own())

    tasks: list[asyncio.Task[None]] = []
    ended = asyncio.Event()

    async def invocation() -> None:
        task: Any = asyncio.current_task()
        task.invocation_id = _current.invocation_id = "i-1"
        await app.deliver(b"", "deliveries")

    async def process() -> None:
        asyncio.get_running_loop().set_task_factory(_task)
        await asyncio.create_task(invocation())
        ended.set()
        await asyncio.gather(*tasks)

    app = FunctionApp()
    app.delivering = cast("Deliver", Work())
    try:
        asyncio.run(process())
    finally:
        _current.invocation_id = None

    assert worker.kept == [("i-1", '{"event":"of its own"}')]
    assert capsys.readouterr() == ('{"event":"outlives"}\n', "")


def test_a_line_of_a_thread_of_ours_is_printed_once(
    worker: AsyncLoggingHandler, capsys: pytest.CaptureFixture[str]
) -> None:
    _current.invocation_id = "i-1"  # of the thread that starts it
    thread = threading.Thread(target=telemetry.info, args=("delivery.attempted",))
    thread.start()
    thread.join()
    _current.invocation_id = None

    assert worker.kept == []
    assert capsys.readouterr() == ('{"event":"delivery.attempted"}\n', "")


@pytest.mark.parametrize(("write", "level"), [("warning", "WARNING"), ("error", "ERROR")])
def test_what_is_worse_keeps_its_level(
    worker: AsyncLoggingHandler, capsys: pytest.CaptureFixture[str], write: str, level: str
) -> None:
    getattr(telemetry, write)("metrics.lost", rows=3)

    out, err = capsys.readouterr()

    assert worker.kept == []
    assert out == ""
    assert json.loads(err) == {"event": "metrics.lost", "rows": 3, "level": level}


def test_other_hosts_lose_nothing_and_get_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    FunctionApp().load()

    telemetry.error("metrics.lost", rows=3)

    assert capsys.readouterr().out == ""
    handlers = logging.getLogger(LOGGER).handlers
    assert not any(isinstance(each, worker_log.ConsoleLines) for each in handlers)


@pytest.mark.parametrize(
    ("format_", "line"), [("text", "403 for orders"), ("json", '{"event":"publish.refused"}')]
)
def test_the_setting_chooses_how_a_line_is_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, format_: str, line: str
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    monkeypatch.setenv("PUSHGRID_LOG_FORMAT", format_)
    try:
        FunctionApp().load()
        telemetry.info("publish.refused", "403 for orders")
        telemetry.info("deadletter_batch")
    finally:
        worker_log.use_format(LogFormat.JSON)

    assert caplog.messages == [line, '{"event":"deadletter_batch"}']
