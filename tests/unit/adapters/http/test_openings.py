"""Openings: whose turn it is to connect, by promises and lines, in driven time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import FakeClock
from pushgrid.testing.memory.driven_loop import DrivenLoop
from shared.adapters.http import openings as module
from shared.adapters.http.no_answer import NoAnswer
from shared.adapters.http.openings import Opening, Openings
from shared.adapters.http.request_writer import Server
from shared.delivery.opening_bound import COUNTED, FIRST, LEAST, REPEATED_SYN
from shared.http import Failure

SERVER = Server("https", "small.example", 443)
OTHER = Server("https", "other.example", 443)


class Line:
    """Openings, and those that ask for them by promises."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = DrivenLoop(self.clock)
        self.openings = Openings(self.clock.monotonic)

    def fill(self, count: int = FIRST, server: Server = SERVER) -> list[Opening]:
        """Have connections opened; they are connecting."""
        made = [self.call(self.openings.turn(server)) for _ in range(count)]
        for each in made:
            self.now(each.connecting)
        return made

    def call(self, coroutine: Any) -> Any:
        return self.loop.run(coroutine)

    def now(self, what: Any, *given: Any, **named: Any) -> Any:
        """Call a function on the loop."""

        async def call() -> Any:
            return what(*given, **named)

        return self.loop.run(call())

    def asks(self, server: Server = SERVER, idle: int = 0, again: Any = print) -> bool:
        return bool(self.now(self.openings.promise, server, idle, again))

    def passes(self, seconds: float) -> None:
        self.loop.advance(timedelta(seconds=seconds))


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.loop.end()


def test_who_is_refused_asks_again_in_order_as_soon_as_there_is_room(line: Line) -> None:
    asked: list[str] = []

    def again(name: str) -> Any:
        def ask() -> None:
            asked.append(name)
            line.openings.promise(SERVER, 0, ask)

        return ask

    opening = line.fill()[0]
    assert [line.asks(again=again(name)) for name in "abc"] == [False, False, False]
    line.now(opening.end)
    line.loop.settle()

    assert asked == ["a"]


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_silent_connection_counts_for_250_ms_only(line: Line, *, is_connected: bool) -> None:
    for each in line.fill():
        if is_connected:
            line.now(each.connected)
    assert not line.asks()
    line.passes(COUNTED - 0.001)
    assert not line.asks()
    line.passes(0.002)

    # A peer that has accepted them has room for as many more; of a silent one nothing is known.
    permitted = sum(line.asks() for _ in range(50))
    assert permitted == (2 * FIRST if is_connected else FIRST)


def test_300_that_wait_for_a_peer_that_answers_late_are_open_in_the_sixth_round(line: Line) -> None:
    """As long as some wait, more are wanted: it goes on to double after a second."""
    opened: list[float] = []
    began = line.clock.monotonic()

    async def connect() -> None:
        opening = await line.openings.turn(SERVER)
        opening.connecting()
        opening.connected()
        opened.append(line.clock.monotonic() - began)

    tasks = [line.loop.create_task(connect()) for _ in range(300)]
    line.passes(2.0)

    assert all(each.done() for each in tasks)
    assert max(opened) == pytest.approx(5 * COUNTED, abs=0.01)


def test_time_in_which_a_name_is_resolved_does_not_count(line: Line) -> None:
    (opening,) = [line.call(line.openings.turn(SERVER))]
    line.passes(5.0)
    assert not opening.counts
    line.now(opening.connecting)
    assert opening.counts
    line.now(opening.connected)
    line.passes(0.1)
    line.now(opening.answered, kept=True)

    assert not opening.counts


def test_a_connect_that_takes_as_long_as_a_repeated_syn_narrows_it(line: Line) -> None:
    """Before it fails: a silent host shows in 0.9 s, and has two at a time from then on."""
    line.fill()
    line.passes(REPEATED_SYN + 0.001)

    assert sum(line.asks() for _ in range(50)) == LEAST


def test_a_silent_host_keeps_no_other_waiting(line: Line) -> None:
    line.fill()
    assert not line.asks()

    assert line.asks(OTHER)


def test_whoever_waits_for_a_silent_host_gets_a_turn_of_two_each_250_ms(line: Line) -> None:
    line.fill()
    line.passes(REPEATED_SYN + 0.001)
    turns: list[float] = []
    began = line.clock.monotonic()

    async def connect() -> None:
        opening = await line.openings.turn(SERVER)
        opening.connecting()
        turns.append(round(line.clock.monotonic() - began, 2))

    tasks = [line.loop.create_task(connect()) for _ in range(8)]
    line.passes(1.0)

    assert turns == [0, 0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75]
    assert all(each.done() for each in tasks)


def test_idle_connections_are_promised_once_each_and_do_not_count(line: Line) -> None:
    line.fill()

    assert [line.asks(idle=2) for _ in range(3)] == [True, True, False]
    line.now(line.openings.claim, SERVER, reuses=True)
    assert line.asks(idle=2)


def test_promises_of_requests_that_are_never_sent_end(line: Line) -> None:
    assert [line.asks() for _ in range(FIRST + 1)] == [True] * FIRST + [False]
    assert line.asks(idle=1)
    line.passes(COUNTED + 0.001)

    assert line.asks(idle=1)
    assert [line.asks() for _ in range(FIRST + 1)] == [True] * FIRST + [False]


def test_a_promise_is_claimed_by_the_request_and_returned_if_it_reuses_a_connection(
    line: Line,
) -> None:
    assert all(line.asks() for _ in range(FIRST))
    opening = line.now(line.openings.claim, SERVER, reuses=False)
    assert opening.counts
    assert line.now(line.openings.claim, SERVER, reuses=True) is None

    assert [line.asks(), line.asks()] == [True, False]


def test_who_is_cancelled_waits_no_longer(line: Line) -> None:
    opening = line.fill()[0]
    first, second = (line.loop.create_task(line.openings.turn(SERVER)) for _ in range(2))
    line.loop.settle()
    first.cancel()
    line.loop.settle()
    line.now(opening.end)
    line.loop.settle()

    assert second.done()


def test_at_the_end_nobody_waits(line: Line) -> None:
    line.fill()
    waiting = line.loop.create_task(line.openings.turn(SERVER))
    line.loop.settle()
    line.now(line.openings.stop)

    for each in (waiting, line.openings.turn(SERVER)):
        with pytest.raises(NoAnswer) as refused:
            line.call(_result(each))
        assert refused.value.failure is Failure.SHORTAGE


def test_idle_hosts_are_forgotten(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HOSTS", 3)
    servers = [Server("https", f"{number}.example", 443) for number in range(9)]
    for each in servers:
        line.fill(1, each)[0].end()
    assert len(line.openings._hosts) == 3
    line.passes(60.0)
    line.fill(1, SERVER)

    assert list(line.openings._hosts) == [("small.example", 443)]


def test_hosts_to_which_something_is_being_opened_are_not_forgotten(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_HOSTS", 1)
    line.fill()
    line.fill(1, OTHER)

    assert not line.asks()


async def _result(waiting: Any) -> Any:
    return await waiting


def test_without_a_bound_each_is_opened_at_once() -> None:
    clock = FakeClock()
    loop, openings = DrivenLoop(clock), Openings(clock.monotonic, is_bounded=False)

    async def open_all() -> int:
        return len(await asyncio.gather(*(openings.turn(SERVER) for _ in range(300))))

    assert loop.run(open_all()) == 300
    loop.end()
