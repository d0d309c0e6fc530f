"""Connections that are being opened to one host and port have a bound; others go on."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest

from pushgrid.testing.memory import Seconds
from shared.adapters.http import dialer
from shared.adapters.http.openings import Openings
from shared.adapters.http.pool import Pool
from shared.delivery.opening_bound import FIRST
from shared.http import Answered, Exchange, Failure, OutboundRequest
from shared.settings.network_settings import egress_proxy
from tests.integration.push.late import eventually
from tests.integration.push.names import always_at
from tests.integration.push.on_loop import (
    PATIENCE,
    PATIENT,
    HttpPusher,
    answer_of,
    begin,
    failure_of,
    run,
)
from tests.integration.push.scripted import (
    LOCAL,
    OK,
    Peer,
    Server,
    always,
    forwarding,
    once,
    silent,
)

CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_RETRANSMITTED = 100  # offset of tcpi_total_retrans in Linux's struct tcp_info

BRIEF = timedelta(seconds=2)
Send = Coroutine[Any, Any, Exchange]


@pytest.fixture
def bounded() -> Iterator[HttpPusher]:
    """A pusher whose bound knows no time: only answers and failures make room."""
    with HttpPusher(LOCAL, pool=Pool(openings=Openings(Seconds()))) as made:
        yield made


def send(pusher: HttpPusher, url: str, timeout: timedelta = PATIENT) -> Send:
    return pusher.real.send(OutboundRequest("POST", url, {}, b"[]"), timeout)


@contextmanager
def small_server() -> Iterator[str]:
    """Take one connection at a time, with an accept queue of five, as Python's servers do."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)

        def serve() -> None:
            while True:
                try:
                    accepted = listener.accept()[0]
                except OSError:
                    return
                with accepted:
                    accepted.settimeout(PATIENCE)
                    if accepted.recv(65536):
                        accepted.sendall(CLOSING)

        thread = Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the SYN of each connection was sent again; of those that were made."""
    counted: list[int] = []
    connect = dialer.connect

    async def counting(*given: Any) -> socket.socket:
        connected = await connect(*given)
        told = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        counted.append(struct.unpack_from("I", told, _RETRANSMITTED)[0])
        return connected

    monkeypatch.setattr(dialer, "connect", counting)
    return counted


def test_no_syn_to_a_small_server_is_lost(bounded: HttpPusher, lost: list[int]) -> None:
    """24 events for 19 subscriptions; without a bound the control loses many of as many."""
    with small_server() as url:
        sends = [begin(send(bounded, f"{url}/{number}")) for number in range(24 * 19)]
        answers = [answer_of(each.result(PATIENCE)) for each in sends]

    assert [each.status for each in answers] == [200] * 456
    assert lost == [0] * 456

    unbounded = HttpPusher(LOCAL, pool=Pool(openings=Openings(is_bounded=False)))
    with unbounded:
        with small_server() as url:
            sends = [begin(send(unbounded, f"{url}/{number}")) for number in range(24 * 19)]
            assert eventually(lambda: any(lost))
        for each in sends:  # Nobody listens any more.
            each.result(PATIENCE)


class Held:
    """
    A server that answers what is sent to ``/quick``, and the rest when the test says so.

    The second request to ``/gone`` on a connection ends it.
    """

    def __init__(self) -> None:
        self.open = 0
        self.answer = Event()

    def __call__(self, peer: Peer) -> None:
        was_gone = False
        while request := peer.read():
            is_gone = b" /gone" in request
            if is_gone and was_gone:
                return
            was_gone = is_gone
            if b" /quick" not in request and not is_gone:
                self.open += 1
                self.answer.wait(PATIENCE)
            peer.send(OK)


def hold(pusher: HttpPusher, server: Server, held: Held, count: int = FIRST) -> list[Any]:
    """Have so many connections opened that are not answered."""
    sends = [begin(send(pusher, server.at("127.0.0.1"))) for _ in range(count)]
    assert eventually(lambda: held.open >= min(count, FIRST))
    return sends


def test_who_waits_for_a_connection_waits_outside_the_timeout(bounded: HttpPusher) -> None:
    held = Held()
    with Server(held) as server:
        sends = hold(bounded, server, held)
        waiting = begin(send(bounded, f"{server.at('127.0.0.1')}quick", BRIEF))
        with pytest.raises(TimeoutError):
            waiting.result(1.2 * BRIEF.total_seconds())
        assert server.connections == FIRST
        held.answer.set()

        assert answer_of(waiting.result(PATIENCE)).status == 200
        assert all(isinstance(each.result(PATIENCE), Answered) for each in sends)


def test_who_meets_a_stale_connection_waits_for_another_outside_the_timeout(
    bounded: HttpPusher,
) -> None:
    held = Held()
    with Server(held) as server:
        url = server.at("127.0.0.1")
        bounded.answer(f"{url}gone")
        anew = OutboundRequest("POST", url, {}, b"[]", examines_peer=True)  # reuses none
        sends = [begin(bounded.real.send(anew, PATIENT)) for _ in range(FIRST)]
        assert eventually(lambda: held.open == FIRST)
        waiting = begin(send(bounded, f"{url}gone", BRIEF))
        with pytest.raises(TimeoutError):
            waiting.result(1.2 * BRIEF.total_seconds())
        held.answer.set()

        assert answer_of(waiting.result(PATIENCE)).status == 200
        assert all(isinstance(each.result(PATIENCE), Answered) for each in sends)


def test_idle_connections_are_reused_while_no_other_may_be_opened(bounded: HttpPusher) -> None:
    held = Held()
    with Server(held) as server:
        quick = f"{server.at('127.0.0.1')}quick"
        bounded.answer(quick)
        sends = hold(bounded, server, held, FIRST)  # one of them over the idle connection
        sends += [begin(send(bounded, server.at("127.0.0.1")))]
        assert eventually(lambda: held.open == FIRST + 1)
        held.answer.set()
        assert all(isinstance(each.result(PATIENCE), Answered) for each in sends)


def test_connections_that_fail_to_open_make_room_at_once(bounded: HttpPusher) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/"
        sends = [begin(send(bounded, url)) for _ in range(4 * FIRST)]

        assert {failure_of(each.result(PATIENCE)) for each in sends} == {Failure.SOCKET}


def test_a_silent_host_keeps_no_other_waiting(bounded: HttpPusher) -> None:
    with silent() as full, Server(once(OK)) as server:
        url = f"http://127.0.0.1:{full.getsockname()[1]}/"
        sends = [begin(send(bounded, url)) for _ in range(4 * FIRST)]

        assert bounded.answer(server.url).status == 200
        assert not any(each.done() for each in sends)
        for each in sends:
            each.cancel()


def test_behind_a_proxy_the_endpoint_counts() -> None:
    held = Held()
    with Server(held) as server, Server(always(OK)) as other, Server(forwarding) as proxy:
        through = HttpPusher(
            LOCAL,
            lookup=always_at("127.0.0.1"),
            proxy=egress_proxy(f"http://proxy.test:{proxy.port}"),
            pool=Pool(openings=Openings(Seconds())),
        )
        with through:
            sends = hold(through, server, held, FIRST + 1)
            assert through.answer(other.at("other.test")).status == 200
            assert proxy.connections == FIRST + 1
            held.answer.set()
            assert all(isinstance(each.result(PATIENCE), Answered) for each in sends)


def test_a_promise_is_kept_and_who_is_refused_hears_of_room(bounded: HttpPusher) -> None:
    held, heard = Held(), Event()
    with Server(held) as server:
        url = server.at("127.0.0.1")

        async def promise(again: Callable[[], None]) -> bool:
            return bounded.real.reserve_connection(url, again)

        promised = [run(promise(heard.set)) for _ in range(FIRST + 1)]
        assert promised == [True] * FIRST + [False]
        sends = hold(bounded, server, held)
        assert not heard.is_set()
        held.answer.set()

        assert heard.wait(PATIENCE)
        assert all(isinstance(each.result(PATIENCE), Answered) for each in sends)


def test_when_the_app_stops_a_request_waits_no_longer(bounded: HttpPusher) -> None:
    async def stop() -> None:
        bounded.real.stop()

    held = Held()
    with Server(held) as server:
        sends = hold(bounded, server, held)
        waiting = begin(send(bounded, server.at("127.0.0.1")))
        run(stop())
        assert failure_of(waiting.result(PATIENCE)) is Failure.SHORTAGE
        held.answer.set()
        assert all(isinstance(each.result(PATIENCE), Answered) for each in sends)
