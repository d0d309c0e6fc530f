"""Work that anybody may ask for: rarely done, never twice at a time, never waited for long."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.adapters.bounded import Bounded

WAIT = 0.2


class Work:
    """Counts its runs; hangs while it is told to."""

    def __init__(self) -> None:
        self.runs = 0
        self.may_end = threading.Event()
        self.may_end.set()
        self.now = 0.0
        self.bounded = Bounded(self, wait_seconds=WAIT, keep_seconds=3, monotonic=lambda: self.now)

    def __call__(self) -> int:
        self.runs += 1
        self.may_end.wait(10)
        return self.runs


@pytest.fixture
def work() -> Work:
    return Work()


def test_a_result_serves_for_some_seconds(work: Work) -> None:
    found = []
    for now in (0, 1, 2.9, 3, 5.9, 6):
        work.now = now
        found.append(work.bounded.get())

    assert found == [1, 1, 1, 2, 2, 3]


def test_many_at_a_time_share_one_run(work: Work) -> None:
    work.may_end.clear()
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(work.bounded.get) for _ in range(20)]
        work.may_end.set()

    assert {each.result() for each in asked} <= {1, None}
    assert work.runs == 1


def test_nobody_waits_for_what_hangs_and_it_is_not_begun_again(work: Work) -> None:
    work.may_end.clear()
    began = time.monotonic()
    first = work.bounded.get()
    work.now = 100
    later = [work.bounded.get() for _ in range(1000)]
    took = time.monotonic() - began

    work.may_end.set()
    assert (first, set(later), work.runs) == (None, {None}, 1)
    assert took < 5 * WAIT + 2


def test_what_it_raises_is_raised(work: Work) -> None:
    def failing() -> int:
        raise ValueError("no")

    bounded = Bounded(failing, wait_seconds=5, keep_seconds=3, monotonic=lambda: work.now)

    with pytest.raises(ValueError, match="no"):
        bounded.get()
