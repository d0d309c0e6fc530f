"""Attributes that are built at their first use."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter

from shared.once import once

PATIENCE = 20  # seconds after which a test that hangs fails


def test_each_part_is_built_once_and_waited_for_by_those_who_need_it() -> None:
    """The loop built nothing while a thread imported what it did not need."""
    begun, may_end, built = threading.Event(), threading.Event(), list[str]()

    class Parts:
        @once
        def slow(self) -> str:
            built.append("slow")
            begun.set()
            assert may_end.wait(PATIENCE)
            return "slow"

        @once
        def quick(self) -> str:
            return "quick"

    parts = Parts()
    with ThreadPoolExecutor(3) as threads:
        both = [threads.submit(attrgetter("slow"), parts) for _ in range(2)]
        assert begun.wait(PATIENCE)
        other = threads.submit(attrgetter("quick"), parts)
        try:
            assert other.result(PATIENCE) == "quick"
        finally:
            may_end.set()

    assert ([each.result() for each in both], built) == (["slow"] * 2, ["slow"])
