"""Puts of several callers side by side."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shared.adapters.storage.queues import StorageQueues
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable

PATIENCE = 60  # seconds after which a test that hangs fails


@pytest.fixture
def queues() -> StorageQueues:
    """Queues whose single put is the test's."""
    nothing: Any = None
    return StorageQueues(nothing, nothing)


def test_a_few_puts_do_not_wait_for_many(queues: StorageQueues) -> None:
    """Three large commits would take every thread of the pool; the small one puts by itself."""
    may_end, begun = threading.Event(), threading.Semaphore(0)

    def put(_: Queue, text: str) -> Receipt:
        if text == "slow":
            begun.release()
            assert may_end.wait(PATIENCE)
        return Receipt((text, ""))

    queues.put = put  # type: ignore[assignment, method-assign]
    with ThreadPoolExecutor(3) as large:
        commits = [large.submit(queues.put_all, Queue.DELIVERIES, ["slow"] * 50) for _ in range(3)]
        for _ in range(16):
            assert begun.acquire(timeout=PATIENCE)

        assert queues.put_all(Queue.DELIVERIES, ["quick"] * 5) == {}

        may_end.set()
        assert [each.result(PATIENCE) for each in commits] == [{}] * 3


@pytest.mark.parametrize("had", [0, 1])
def test_without_more_threads_the_others_put(
    queues: StorageQueues, had: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool refuses work that it may do all the same: no put is left out of the faults."""
    started = threading.Event()

    def put(_: Queue, text: str) -> Receipt:
        if threading.current_thread() is threading.main_thread():
            assert not had or started.wait(PATIENCE)
        started.set()
        raise StorageUnavailable(text)

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    queues.put = put  # type: ignore[assignment, method-assign]
    queues.put_all(Queue.DELIVERIES, ["0"] * 2 * had)  # starts as many threads
    started.clear()
    monkeypatch.setattr(threading.Thread, "start", start)

    assert sorted(queues.put_all(Queue.DELIVERIES, ["1", "2", "3"])) == [0, 1, 2]


def test_each_text_is_put_once_and_its_fault_is_its_own(queues: StorageQueues) -> None:
    seen: list[str] = []

    def put(_: Queue, text: str) -> Receipt:
        seen.append(text)
        if int(text) % 7 == 0:
            raise StorageUnavailable
        return Receipt((text, ""))

    queues.put = put  # type: ignore[assignment, method-assign]
    faults = queues.put_all(Queue.DELIVERIES, [str(number) for number in range(100)])

    assert sorted(map(int, seen)) == list(range(100))
    assert sorted(faults) == list(range(0, 100, 7))


def test_a_bug_is_raised_after_what_was_begun(queues: StorageQueues) -> None:
    def put(_: Queue, text: str) -> Receipt:
        raise KeyError(text)

    queues.put = put  # type: ignore[assignment, method-assign]
    with pytest.raises(KeyError):
        queues.put_all(Queue.DELIVERIES, ["a", "b"])
