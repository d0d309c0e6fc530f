"""Idle connections are used last in, first out, and never grow too many or too old."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pushgrid.testing.memory import Seconds
from shared.adapters.http.pool import Pool
from shared.adapters.http.request_writer import Server
from shared.engine.delivering.scheduler import PUSHES


class FakeConnection:
    """As much of a connection as the pool looks at."""

    def __init__(self, server: Server, born: float = 0.0) -> None:
        self.server = server
        self.born = born
        self.expires = 0.0
        self.closed = False
        self.is_quiet = True

    @property
    def is_closed(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def time() -> Seconds:
    return Seconds()


def server(number: int) -> Server:
    return Server("https", f"host{number}.example", 443)


def made(count: int, host: int = 0) -> list[Any]:
    return [FakeConnection(server(host)) for _ in range(count)]


def keep_all(pool: Pool, connections: list[Any]) -> None:
    for connection in connections:
        pool.keep(connection, None)


def test_the_one_used_last_comes_first() -> None:
    pool, connections = Pool(clock=Seconds()), made(3)
    keep_all(pool, connections)

    assert [pool.take(server(0)) for _ in range(4)] == [*reversed(connections), None]
    assert pool.take(server(1)) is None


def test_an_unusable_one_is_closed_and_passed_over() -> None:
    pool, connections = Pool(clock=Seconds()), made(2)
    keep_all(pool, connections)
    connections[1].is_quiet = False

    assert pool.take(server(0)) is connections[0]
    assert connections[1].closed


def test_one_server_may_have_as_many_as_pushes_are_under_way() -> None:
    pool, connections = Pool(clock=Seconds()), made(PUSHES + 1)
    keep_all(pool, connections)

    assert [each.closed for each in connections] == [True] + [False] * PUSHES


def test_all_together_have_a_limit_and_the_endpoint_used_longest_ago_loses() -> None:
    pool = Pool(512, clock=Seconds())
    groups = [made(64, host) for host in range(9)]
    for group in groups:
        keep_all(pool, group)

    closed = [sum(each.closed for each in group) for group in groups]
    assert closed == [64, 0, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("born", "keep_for", "seconds"),
    [(0.0, None, 60.0), (0.0, 5.0, 4.0), (0.0, 3600.0, 60.0), (-590.0, None, 10.0)],
)
def test_it_is_kept_for_a_while(
    time: Seconds, born: float, keep_for: float | None, seconds: float
) -> None:
    for later, kept in ((seconds - 0.1, True), (seconds, False)):
        time.seconds = 0.0
        pool = Pool(clock=time)
        connection: Any = FakeConnection(server(0), born)
        pool.keep(connection, keep_for)
        time.seconds = later

        assert (pool.take(server(0)) is connection) is kept
        assert connection.closed is not kept


def test_old_ones_are_closed_although_nobody_asks_for_them(time: Seconds) -> None:
    pool, old, new = Pool(clock=time), made(3, host=1), made(1, host=2)
    keep_all(pool, old)
    time.seconds = 61.0
    keep_all(pool, new)

    assert [each.closed for each in old + new] == [True, True, True, False]


def test_closing_closes_all() -> None:
    pool, connections = Pool(clock=Seconds()), made(2) + made(2, host=1)
    keep_all(pool, connections)
    pool.close()

    assert all(each.closed for each in connections)
    assert pool.take(server(0)) is None


def test_connections_that_are_over_are_not_promised(time: Seconds) -> None:
    """A burst after a minute, or after the server's restart, opens new ones in their turn."""
    promised: list[int] = []
    openings: Any = SimpleNamespace(promise=lambda _server, idle, _again: promised.append(idle))
    pool, connections = Pool(openings=openings, clock=time), made(3)
    for each in connections:
        pool.keep(each, None)
    pool.promise(server(0), print)
    connections[0].close()
    pool.promise(server(0), print)
    time.seconds += 61
    pool.promise(server(0), print)

    assert promised == [3, 2, 0]
