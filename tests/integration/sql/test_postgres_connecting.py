"""Connections to PostgreSQL that fail, or hang."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from threading import Event, Thread
from typing import Any

import psycopg
import pytest

from shared.adapters.sql.postgres import connecting
from shared.adapters.sql.postgres import database as database_module
from shared.adapters.sql.postgres.connecting import Connecting
from shared.errors import StorageUnavailable
from testbed.postgres import running_postgres
from tests.integration.sql.databases import Schema


def test_after_a_failure_a_server_comes_back_at_a_time_of_its_own() -> None:
    """Sooner at first, and never later than after three seconds."""
    now, tried = [0.0], []

    def connect(**_: object) -> psycopg.Connection[Any]:
        tried.append(now[0])
        raise psycopg.OperationalError

    found = []
    for chance in (0.0, 1.0):
        now[0], tried[:] = 0.0, []
        it = Connecting(
            {},
            seconds=lambda: now[0],
            chance=lambda chance=chance: chance,  # type: ignore[misc]
            connect=connect,
        )
        while now[0] < 20:
            with pytest.raises(psycopg.OperationalError):
                it.open()
            now[0] += 0.01
        found.append([round(b - a, 1) for a, b in pairwise(tried)])
    assert [each[:6] for each in found] == [
        [0.1, 0.1, 0.2, 0.4, 0.8, 1.0],
        [0.2, 0.3, 0.6, 1.2, 2.4, 3.0],
    ]


class Asked:
    """A database that is asked on a thread, while its server is stopped."""

    def __init__(self, call: Callable[[Any], object], stop: Callable[[], object]) -> None:
        self._call = call
        self._stop = stop
        self._has_sent = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()
        assert self._has_sent.wait(60)

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with suppress(StorageUnavailable):
            self._call(self._ask)

    def _ask(self, transaction: Any) -> object:
        if not self._has_sent.is_set():
            self._stop()
            self._has_sent.set()
        return transaction.rows("SELECT 1")


@pytest.mark.parametrize("call", ["read", "write", "apart"])
def test_a_connection_without_an_answer_for_15_seconds_is_cut(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Whoever waits is told, or has it done on another one; before that time nothing is cut."""
    cut: list[psycopg.Connection[Any]] = []
    monotonic = time.monotonic

    def noted(connection: psycopg.Connection[Any]) -> None:
        cut.append(connection)
        connecting.cut(connection)

    monkeypatch.setattr(database_module, "cut", noted)
    with running_postgres() as server, Schema(server).store() as store:
        database = store.database
        calls: dict[str, Callable[..., object]] = {
            "read": database.read,
            "write": database.write,
            "apart": database.connections.apart,
        }
        asked = Asked(calls[call], partial(server.signal, signal.SIGSTOP))
        try:
            for seconds, count in ((14, 0), (16, 1)):
                later = partial(lambda by: monotonic() + by, seconds)
                monkeypatch.setattr(database._threads, "monotonic", later)
                database._cut_what_hangs()
                assert len(cut) == count
        finally:
            server.signal(signal.SIGCONT)
        asked.end()
        assert cut[0].closed
