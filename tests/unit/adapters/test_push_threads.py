"""Pools of threads where the process can have no more."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from shared.adapters.push_threads import PatientPool

PATIENCE = 60  # seconds after which a test that hangs fails


@pytest.fixture
def pool() -> Iterator[PatientPool]:
    with PatientPool(4) as pool:
        yield pool


def test_work_waits_for_a_thread_that_there_is(pool: PatientPool) -> None:
    """It was refused and done all the same: an invocation failed, and its events went out twice."""
    may_end = threading.Event()
    first = pool.submit(may_end.wait, PATIENCE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", _no_thread)
        second = pool.submit(str, 1)
    may_end.set()

    assert (first.result(PATIENCE), second.result(PATIENCE)) == (True, "1")


def test_without_any_thread_work_is_refused(pool: PatientPool) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", _no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.submit(str, 1)


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
