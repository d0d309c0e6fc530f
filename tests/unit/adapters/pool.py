"""Push pools, their clock, and pushes that last until they are released."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from shared.adapters.push_pool import ThreadedPushPool
from shared.delivery.slots.slots import Slots
from tests.fakes import Seconds

MINUTE = timedelta(minutes=1)
PATIENCE = 30  # seconds after which a test that hangs fails


class Text(str):
    """What came of a push that succeeded."""

    __slots__ = ()
    was_sent = succeeded = True


class Unsent(Text):
    """What came of an item that something kept from being pushed."""

    __slots__ = ()
    was_sent = succeeded = False


def upper(item: str) -> Text:
    return Text(item.upper())


class Work:
    """Pushes that begin at once and last until they are released."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.items: list[str] = []
        self._release = threading.Event()

    def __call__(self, item: str) -> Text:
        self.items.append(item)
        self.begun.release()
        assert self._release.wait(PATIENCE)
        return upper(item)

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self.begun.acquire(timeout=PATIENCE)

    def release(self) -> None:
        self._release.set()


def a_pool(time: Seconds, *, threads: int = 8, slots: int = 2) -> ThreadedPushPool:
    return ThreadedPushPool(threads, Slots(slots, slots, time), clock=time, tick=0.001)


def job_of(
    pool: ThreadedPushPool,
    key: str,
    items: Sequence[str],
    work: Callable[[str], Text],
    stop_after: timedelta = MINUTE,
    detach: Callable[[], bool] = lambda: False,
) -> Iterator[list[tuple[str, Text]]]:
    return pool.run(key, items, work, stop_after=stop_after, detach=detach)


def drained(run: Iterator[list[tuple[str, Text]]]) -> list[tuple[str, Text]]:
    return [pair for finished in run for pair in finished]


def assert_all_released(pool: ThreadedPushPool) -> None:
    """No slot is taken and nobody waits, once all threads have ended."""
    pool._threads.shutdown()
    assert pool._slots._used == pool._slots._pushing == 0
    assert not pool._slots._waiting
    assert not pool._slots._active
