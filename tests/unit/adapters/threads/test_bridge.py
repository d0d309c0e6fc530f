"""Threads reach the event loop by one way, which never waits for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Thread, current_thread

import pytest

from shared.adapters.threads import Bridge


async def where() -> tuple[asyncio.AbstractEventLoop, Thread]:
    return asyncio.get_running_loop(), current_thread()


async def failing() -> None:
    raise LookupError("as it is")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Return a loop that runs on another thread."""
    made = asyncio.new_event_loop()
    thread = Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    """Return a bridge whose own loop ends with the test."""
    made = Bridge()
    yield made
    if own := made._loop:
        thread = made.run(where())[1]
        own.call_soon_threadsafe(own.stop)
        thread.join()
        own.close()


async def attach(bridge: Bridge) -> None:
    bridge.attach()


def attached(loop: asyncio.AbstractEventLoop) -> Bridge:
    made = Bridge()
    asyncio.run_coroutine_threadsafe(attach(made), loop).result(30)
    return made


def test_a_coroutine_runs_on_the_attached_loop(loop: asyncio.AbstractEventLoop) -> None:
    bridge = attached(loop)

    assert bridge.run(where())[0] is loop
    with pytest.raises(LookupError, match="as it is"):
        bridge.run(failing())


def test_without_a_loop_there_is_one_on_a_thread_of_its_own(bridge: Bridge) -> None:
    bridge.attach()  # no loop runs here

    assert bridge.run(where()) == bridge.run(where())
    assert bridge.run(where())[1] is not current_thread()


def test_the_loop_does_not_wait_for_itself(loop: asyncio.AbstractEventLoop) -> None:
    bridge = attached(loop)

    async def call() -> None:
        bridge.run(where())

    with pytest.raises(RuntimeError, match="the event loop would wait for itself"):
        asyncio.run_coroutine_threadsafe(call(), loop).result(30)


def test_another_loop_may_wait(loop: asyncio.AbstractEventLoop) -> None:
    """A test of a user, say, that runs in a loop of its own."""
    bridge = attached(loop)

    async def call() -> asyncio.AbstractEventLoop:
        return bridge.run(where())[0]

    assert asyncio.run(call()) is loop


def test_the_loop_stays_until_it_is_closed(loop: asyncio.AbstractEventLoop) -> None:
    """What belongs to one loop can't be used on another."""
    bridge = Bridge()
    asyncio.run(attach(bridge))
    asyncio.run_coroutine_threadsafe(attach(bridge), loop).result(30)
    asyncio.run_coroutine_threadsafe(attach(bridge), loop).result(30)

    with pytest.raises(RuntimeError, match="another event loop runs the app"):
        asyncio.run(attach(bridge))
    assert bridge.run(where())[0] is loop
