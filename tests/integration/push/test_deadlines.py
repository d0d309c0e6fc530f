"""The timeout is a total one, whatever the server does."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import timedelta
from threading import Event, Thread
from time import monotonic

import pytest

from shared.adapters.http_push import HttpPusher
from shared.adapters.outbound_guard import Address
from shared.http import Failure, NotAnswered
from tests.integration.push.scripted import LOCAL, OK, SHORT, Peer, Script, Server, push


def never_answering(peer: Peer) -> None:
    peer.read()
    peer.wait()


def never_reading(peer: Peer) -> None:
    peer.wait()


def slowly_reading(peer: Peer) -> None:
    while not peer.stopped.wait(0.05):
        peer.receive(1000)


def dribbling(peer: Peer) -> None:
    peer.read()
    peer.dribble(OK[:-6] + b"\r\nX: " + b"y" * 1000)


def dribbling_status(peer: Peer) -> None:
    peer.read()
    peer.dribble(b"HTTP/1.1 200 " + b"O" * 1000)


def forever_processing(peer: Peer) -> None:
    peer.read()
    while not peer.stopped.wait(0.02):
        peer.send(b"HTTP/1.1 102 Processing\r\n\r\n")


@pytest.mark.parametrize(
    "script",
    [
        never_answering,
        never_reading,
        slowly_reading,
        dribbling,
        dribbling_status,
        forever_processing,
    ],
)
def test_the_deadline_holds(pusher: HttpPusher, script: Script) -> None:
    with Server(script) as server:
        begun = monotonic()
        none = push(pusher, server.url, SHORT, body=bytes(20_000_000))
        taken = monotonic() - begun

        assert isinstance(none, NotAnswered)
        assert none.failure is Failure.TIMED_OUT
        assert none.seconds >= 0.5
        assert 0.5 <= taken < 3
        assert server.connections == 1


def test_a_used_connection_that_stays_silent_is_no_reason_to_send_again(
    pusher: HttpPusher,
) -> None:
    def script(peer: Peer) -> None:
        peer.read()
        peer.send(OK)
        peer.read()
        peer.wait()

    with Server(script) as server:
        push(pusher, server.url)
        none = push(pusher, server.url, SHORT)

        assert isinstance(none, NotAnswered)
        assert none.failure is Failure.TIMED_OUT
        assert len(server.requests) == 2
        assert server.connections == 1


def test_connecting_is_bounded() -> None:
    """A listener whose backlog is full lets nobody connect."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = []
        try:
            for _ in range(4):
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex(("127.0.0.1", port))
            pusher = HttpPusher(LOCAL)
            none = push(pusher, f"http://127.0.0.1:{port}/", SHORT)
        finally:
            for each in waiting:
                each.close()

        assert isinstance(none, NotAnswered)
        assert none.failure is Failure.TIMED_OUT
        assert 0.5 <= none.seconds < 3


def test_a_silent_name_server_is_bounded_and_asked_once() -> None:
    release, asked = Event(), []

    def lookup(host: str) -> Sequence[Address]:
        asked.append(host)
        release.wait(20)
        raise OSError("no answer")

    pusher = HttpPusher(LOCAL, lookup=lookup)
    outcomes: list[object] = []
    threads = [
        Thread(target=lambda: outcomes.append(push(pusher, "http://silent.test/", SHORT)))
        for _ in range(5)
    ]
    begun = monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = monotonic() - begun
    release.set()

    assert [type(each) for each in outcomes] == [NotAnswered] * 5
    assert {each[0] for each in outcomes if isinstance(each, NotAnswered)} == {Failure.TIMED_OUT}
    assert asked == ["silent.test"]
    assert 0.5 <= taken < 3


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_at_all_is_a_timeout(pusher: HttpPusher, seconds: int) -> None:
    with Server(never_answering) as server:
        none = push(pusher, server.url, timedelta(seconds=seconds))

        assert isinstance(none, NotAnswered)
        assert none.failure is Failure.TIMED_OUT
