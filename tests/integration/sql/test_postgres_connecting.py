"""Connections to PostgreSQL that fail, or hang."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import pairwise
from threading import Barrier, Event, Thread
from typing import Any

import psycopg
import pytest

from shared.adapters.sql.database import WriteTransaction
from shared.adapters.sql.postgres import connecting
from shared.adapters.sql.postgres import database as database_module
from shared.adapters.sql.postgres.connecting import Connecting, read_url
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.threads import SystemThreads
from shared.errors import StorageUnavailable
from testbed.postgres import DATABASE, PASSWORD, ROLE, PostgresServer, running_postgres
from testbed.tcp_proxy import TcpProxy
from tests.host.running import until
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


@pytest.mark.parametrize("names", ["host=127.0.0.1,127.0.0.1", "hostaddr=127.0.0.1,127.0.0.1"])
def test_of_several_hosts_the_one_that_answered_last_is_asked_first(
    postgres: PostgresServer, names: str
) -> None:
    """A former primary that does not answer keeps one connection waiting, and no other."""
    asked: list[str] = []
    down = {"one"}

    def connect(name: str) -> socket.socket:
        asked.append(name)
        if name in down:
            raise ConnectionRefusedError
        return socket.create_connection(("127.0.0.1", postgres.port))

    def ask() -> list[str]:
        asked.clear()
        it.open().close()
        return asked

    with ExitStack() as stack:
        one, two, three = (
            stack.enter_context(closing(TcpProxy(partial(connect, name))))
            for name in ("one", "two", "three")
        )
        ports = f"{one.port},{two.port},{three.port}"
        url = f"postgresql://{ROLE}:{PASSWORD}@/{DATABASE}?{names},127.0.0.1&port={ports}"
        it = Connecting(read_url(url), seconds=lambda: 0.0)
        assert ask() == ["one", "two"]
        assert ask() == ["two"]
        down.clear()
        assert ask() == ["two"]
        down.update(("two", "three"))
        assert ask() == ["two", "three", "one"]
        assert ask() == ["one"]
        assert it.place.endswith("on 127.0.0.1,127.0.0.1,127.0.0.1")


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


class Away:
    """A database behind a proxy, all of whose clocks are `seconds`; `is_away`: nobody answers."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.seconds, self.is_away = 1000.0, False
        self.proxy = TcpProxy(self._connect)
        at = f"postgresql://{ROLE}:{PASSWORD}@127.0.0.1:{self.proxy.port}/{DATABASE}"
        self.database = PostgresDatabase(
            Connecting(read_url(at), seconds=self._now),
            SystemThreads(monotonic=self._now),
            schema=server.new_schema(),
            boottime=self._now,
            allows_unsafe=True,
        )

    def _now(self) -> float:
        return self.seconds

    def _connect(self) -> socket.socket:
        if self.is_away:
            raise ConnectionRefusedError
        return socket.create_connection(("127.0.0.1", self._server.port))

    def close(self) -> None:
        self.proxy.cut()  # what hangs still
        self.database.close()
        self.proxy.close()


@pytest.fixture
def away(postgres: PostgresServer) -> Iterator[Away]:
    with closing(Away(postgres)) as made:
        yield made


def read_at_once(database: PostgresDatabase) -> None:
    """Use all connections that read."""
    together = Barrier(2, timeout=20)
    read = partial(database.read, lambda _: together.wait())
    threads = [Thread(target=read, daemon=True) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
        assert not each.is_alive()


def test_idle_connections_whose_bytes_vanish_keep_nothing_waiting_for_over_15_seconds(
    away: Away,
) -> None:
    """New ones work: by these a server reads, writes and renews again, each in its own time."""
    database = away.database

    def slow(writing: WriteTransaction) -> None:
        writing.run("UPDATE state SET value = value")
        away.seconds += 3
        database._cut_what_hangs()

    def is_renewed() -> bool:
        """Try again, as each second: the write takes the next number meanwhile."""
        with suppress(StorageUnavailable):
            database.processes.renew()
            return True
        return False

    observe = database.processes.observe
    calls = (partial(until, is_renewed), observe, partial(database.write, slow))
    database.processes.renew()
    read_at_once(database)
    away.proxy.silence()
    done: list[object] = []

    def do(call: Callable[[], object]) -> None:
        call()
        done.append(call)

    threads = [Thread(target=do, args=(call,), daemon=True) for call in calls]
    for each in threads:
        each.start()
    until(lambda: len(away.proxy.vanished) == len(calls))
    away.seconds += 16
    database._cut_what_hangs()
    until(lambda: len(done) == len(calls), 20)
    read_at_once(database)


@pytest.mark.parametrize("failing", ["renew", "observe"])
def test_a_server_without_renewals_or_reads_for_30_seconds_is_not_ready(
    away: Away, failing: str
) -> None:
    """Though its last commit has succeeded."""
    database = away.database
    processes = database.processes
    away.seconds += 29
    assert database.fault == ""
    away.seconds += 1
    other = {"renew": processes.observe, "observe": processes.renew}[failing]
    other()
    away.is_away = True
    away.proxy.cut()
    with pytest.raises(StorageUnavailable):
        getattr(processes, failing)()
    assert re.search("30 s.*failed", database.fault), database.fault
    away.is_away = False
    away.seconds += 1
    getattr(processes, failing)()
    other()
    assert database.fault == ""
