"""The timeout is a total one, whatever the server does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from ipaddress import ip_address
from threading import Event
from time import monotonic

import pytest

from shared.adapters.http import http_pusher as sender
from shared.adapters.http.outbound_guard import Address
from shared.http import Failure, OutboundRequest
from tests.integration.push.late import eventually
from tests.integration.push.names import looked_up
from tests.integration.push.on_loop import (
    PATIENCE,
    PATIENT,
    HttpPusher,
    answer_of,
    begin,
    failure_of,
)
from tests.integration.push.scripted import (
    LOCAL,
    OK,
    READ,
    SHORT,
    WAIT,
    Peer,
    Script,
    Server,
    always,
    by_turns,
    byte_by_byte,
    dribbling,
    never_reading,
    once,
    playing,
    silent,
)

never_answering = playing(READ, WAIT)


def slowly_reading(peer: Peer) -> None:
    while not peer.stopped.wait(0.05):
        peer.receive(1000)


def forever_processing(peer: Peer) -> None:
    peer.read()
    while not peer.stopped.wait(0.02):
        peer.send(b"HTTP/1.1 102 Processing\r\n\r\n")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(never_answering, id="never answering"),
        pytest.param(never_reading, id="never reading"),
        pytest.param(slowly_reading, id="slowly reading"),
        pytest.param(dribbling, id="dribbling"),
        pytest.param(playing(READ, byte_by_byte(b"HTTP/1.1 200 " + b"O" * 1000)), id="the status"),
        pytest.param(forever_processing, id="processing for ever"),
    ],
)
def test_the_deadline_holds(pusher: HttpPusher, script: Script) -> None:
    with Server(script) as server:
        none = pusher.unanswered(server.url, SHORT, body=bytes(20_000_000))

        assert none.failure is Failure.TIMED_OUT  # whoever waits on sees the peer's end instead
        assert none.seconds >= SHORT.total_seconds()
        assert server.connections == 1


def test_a_used_connection_that_stays_silent_is_no_reason_to_send_again(
    pusher: HttpPusher,
) -> None:
    with Server(playing(READ, OK, READ, WAIT)) as server:
        pusher.push(server.url)
        none = pusher.push(server.url, SHORT)
        server.stopped.wait(0.2)

        assert failure_of(none) is Failure.TIMED_OUT
        assert len(server.requests) == 2
        assert server.connections == 1


def test_connecting_is_bounded(pusher: HttpPusher) -> None:
    with silent() as full:
        none = pusher.unanswered(f"http://127.0.0.1:{full.getsockname()[1]}/", SHORT)

        assert none.failure is Failure.TIMED_OUT
        assert none.seconds >= SHORT.total_seconds()


def test_connecting_once_more_has_only_the_time_that_is_left() -> None:
    """The name server's second answer comes 1.1 s after the request began: too late."""
    release, asked = Event(), []

    def lookup(host: str) -> Sequence[Address]:
        asked.append(host)
        if len(asked) > 1:
            release.wait(0.9)
        return [ip_address("127.0.0.1")]

    script = by_turns(playing(READ, OK, READ, 0.2), once(OK))
    with HttpPusher(LOCAL, lookup=looked_up(lookup)) as pusher, Server(script) as server:
        url = server.at("again.test")
        pusher.push(url)
        none = pusher.push(url, timedelta(seconds=1))
        release.set()

        assert failure_of(none) is Failure.TIMED_OUT


def test_a_silent_name_server_is_bounded_and_asked_once() -> None:
    release, asked = Event(), []

    def lookup(host: str) -> Sequence[Address]:
        asked.append(host)
        release.wait(20)
        raise OSError("no answer")

    with HttpPusher(LOCAL, lookup=looked_up(lookup)) as pusher:
        request = OutboundRequest("POST", "http://silent.test/", {}, b"[]")
        pushes = [begin(pusher.real.send(request, SHORT)) for _ in range(5)]
        failures = [failure_of(each.result(PATIENCE)) for each in pushes]
        release.set()  # only now: nobody has waited for the name server

    assert failures == [Failure.TIMED_OUT] * 5
    assert asked == ["silent.test"]


def test_a_push_that_is_cancelled_leaves_the_lookup_to_others() -> None:
    release, asked = Event(), []

    def lookup(host: str) -> Sequence[Address]:
        asked.append(host)
        release.wait(20)
        return [ip_address("127.0.0.1")]

    pusher = HttpPusher(LOCAL, lookup=looked_up(lookup))
    with Server(always(OK)) as server:
        request = OutboundRequest("POST", server.at("slow.test"), {}, b"[]")
        first, second = (begin(pusher.real.send(request, PATIENT)) for _ in range(2))
        assert eventually(lambda: asked)
        first.cancel()
        release.set()

        assert answer_of(second.result(PATIENCE)).status == 200
        assert asked == ["slow.test"]
    pusher.close()


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_at_all_is_a_timeout(pusher: HttpPusher, seconds: int) -> None:
    with Server(never_answering) as server:
        assert (
            pusher.unanswered(server.url, timedelta(seconds=seconds)).failure is Failure.TIMED_OUT
        )


@pytest.mark.parametrize(("seconds", "came"), [(20, True), (0.1, False)])
def test_a_body_that_is_wanted_has_the_time_of_the_answer(
    pusher: HttpPusher, monkeypatch: pytest.MonkeyPatch, seconds: float, *, came: bool
) -> None:
    """And two seconds at least, as bodies that nobody asks for."""
    assert sender._BODY_SECONDS == 2
    monkeypatch.setattr(sender, "_BODY_SECONDS", 0.3)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    with Server(playing(READ, head, 0.6, b"ok")) as server:
        request = OutboundRequest("POST", server.url, {}, b"[]", wants_body=True)
        begun = monotonic()
        answered = answer_of(pusher.send(request, timedelta(seconds=seconds)))

        assert answered.body == (b"ok" if came else b"")
        assert monotonic() - begun >= 0.3
