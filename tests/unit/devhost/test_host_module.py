"""What an app finds in `sys.modules`, and what its calls do."""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from devhost.errors import InvocationError
from devhost.functions.host_module import HostModule
from devhost.functions.loader import Function
from devhost.triggers import Triggers


@pytest.fixture(autouse=True)
def _no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "__host__", raising=False)


def test_a_message_that_was_put_from_any_thread_is_known_on_the_loop() -> None:
    async def scene() -> tuple[str, threading.Thread]:
        told: asyncio.Future[tuple[str, threading.Thread]]
        told = asyncio.get_running_loop().create_future()
        HostModule(lambda queue: told.set_result((queue, threading.current_thread()))).install()
        thread = threading.Thread(target=sys.modules["__host__"].message_put, args=("jobs",))
        thread.start()
        async with asyncio.timeout(60):
            return await told

    assert asyncio.run(scene()) == ("jobs", threading.current_thread())
    sys.modules["__host__"].message_put("jobs")  # The host has ended: nobody needs to know.


def test_one_call_at_the_stop_or_the_end_that_fails_keeps_no_other_from_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    called: list[Any] = []

    async def ending(call: Callable[[], object]) -> None:
        await asyncio.sleep(0)
        call()

    async def scene() -> None:
        module = HostModule(called.append)
        for call in (lambda: called.append(1), lambda: 1 / 0, lambda: called.append(2)):
            module.at_stop(call)
            module.at_end(partial(ending, call))
        module.stop()
        called.append("ended")
        await module.end()

    asyncio.run(scene())

    assert called == [1, 2, "ended", 1, 2]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


def test_the_listeners_of_that_queue_poll() -> None:
    """Whatever account it is in: an empty poll costs little."""
    woken: list[int] = []
    triggers = Triggers(
        cast("Any", SimpleNamespace(environ={}, ends_as_azure=False)), cast("Any", None)
    )
    queues: list[Any] = [
        SimpleNamespace(queue=queue, notify=lambda number=number: woken.append(number))
        for number, queue in enumerate(("jobs", "others", "jobs"))
    ]
    triggers.listeners += queues

    triggers.notify("jobs")

    assert woken == [0, 2]


def test_a_function_that_fails_when_started_by_hand_has_been_reported(
    http_function: Callable[..., Function],
) -> None:
    """No task of the host's is left with an exception that nothing awaits."""

    async def invoke(*_: object) -> None:
        raise InvocationError

    invoker = cast("Any", SimpleNamespace(invoke=invoke))
    triggers = Triggers(cast("Any", SimpleNamespace(environ={}, ends_as_azure=False)), invoker)

    asyncio.run(triggers.run_by_hand(http_function(), ""))
