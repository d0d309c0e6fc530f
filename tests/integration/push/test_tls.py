"""TLS: who is trusted, whose sessions are resumed, and that the deadlines hold there too."""

from __future__ import annotations

import ssl
from datetime import timedelta
from threading import Event

import pytest

from pushgrid.testing.memory import Seconds
from shared.adapters.http import tls
from shared.adapters.http.pool import Pool
from shared.adapters.http.tls import client_tls
from shared.http import Failure
from tests.integration.push.authority import Authority
from tests.integration.push.late import Waiting
from tests.integration.push.names import always_at
from tests.integration.push.on_loop import PATIENT, HttpPusher, answer_of, failure_of
from tests.integration.push.scripted import (
    END,
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
)


def test_a_private_authority_is_trusted(trusting: HttpPusher, authority: Authority) -> None:
    with Server(always(OK), authority.server("good.test")) as server:
        for _ in range(5):
            assert trusting.answer(server.at("good.test")).body == b"ok"

        assert server.connections == 1
        assert f"Host: good.test:{server.port}".encode() in server.requests[0]


@pytest.mark.parametrize(
    ("host", "certified"),
    [
        ("GOOD.test", "good.test"),
        ("good.test.", "good.test"),
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
    ],
)
def test_a_name_or_address_is_the_same_however_written(
    trusting: HttpPusher, authority: Authority, host: str, certified: str
) -> None:
    with Server(always(OK), authority.server(certified)) as server:
        push_to(trusting, server, host)


def test_the_name_is_sent_to_the_server(trusting: HttpPusher, authority: Authority) -> None:
    asked: list[str | None] = []
    context = authority.server("good.test")
    context.sni_callback = lambda _, name, __: asked.append(name)
    with Server(always(OK), context) as server:
        trusting.push(server.at("good.test"))

        assert asked == ["good.test"]


@pytest.mark.parametrize("fault", ["wrong name", "expired", "by another", "common name only"])
def test_a_bad_certificate_gets_no_request(
    trusting: HttpPusher, authority: Authority, fault: str
) -> None:
    context = authority.server(
        "other.test" if fault == "wrong name" else "good.test",
        ends_in=timedelta(days=-2 if fault == "expired" else 2),
        by_another=fault == "by another",
        is_named=fault != "common name only",
    )
    with Server(always(OK), context) as server:
        assert trusting.unanswered(server.at("good.test")).failure is Failure.TLS
        assert server.requests == []


def test_old_versions_are_not_spoken_and_private_authorities_need_not_name_their_keys() -> None:
    context = client_tls()

    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT  # set by Python 3.13 and newer


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_wants_our_certificate(
    trusting: HttpPusher, authority: Authority, version: ssl.TLSVersion
) -> None:
    """
    With TLS 1.3 the refusal comes only after the handshake, together with the end of the
    connection; which of the two the system reports is a race.
    """
    context = authority.server("good.test")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.bundle)
    context.minimum_version = context.maximum_version = version
    with Server(always(OK), context) as server:
        failure = trusting.unanswered(server.at("good.test")).failure

        either = {Failure.TLS, Failure.SOCKET}
        assert failure in ({Failure.TLS} if version == ssl.TLSVersion.TLSv1_2 else either)


def test_a_server_that_does_not_speak_tls(trusting: HttpPusher) -> None:
    with Server(playing(END, b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        none = trusting.unanswered(f"https://good.test:{server.port}/")

    assert none.failure is Failure.TLS


# The start of a ServerHello that never ends.
HELLO = byte_by_byte(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03" + bytes(1000))


@pytest.mark.parametrize(
    ("script", "is_tls"),
    [(never_reading, False), (HELLO, False), (dribbling, True), (never_reading, True)],
    ids=["no handshake", "endless handshake", "dribbling", "never reading"],
)
def test_the_deadline_holds(
    trusting: HttpPusher, authority: Authority, script: Script, *, is_tls: bool
) -> None:
    with Server(script, authority.server("good.test") if is_tls else None) as server:
        url = f"https://good.test:{server.port}/"
        none = trusting.unanswered(url, SHORT, body=bytes(20_000_000))

        assert none.failure is Failure.TIMED_OUT
        assert none.seconds >= SHORT.total_seconds()


def test_large_bodies_pass_both_ways(trusting: HttpPusher, authority: Authority) -> None:
    """More than a TLS record, more than the buffers of a socket."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + b"x" * 65536
    body = bytes(range(256)) * 12_000
    with Server(always(answer), authority.server("good.test")) as server:
        for _ in range(2):
            answered = trusting.answer(server.at("good.test"), PATIENT, body=body)

            assert answered.body == b"x" * 65536
            assert server.requests[-1].endswith(b"\r\n\r\n" + body)
        assert server.connections == 1


def test_a_stale_connection_is_replaced(trusting: HttpPusher, authority: Authority) -> None:
    with Server(once(OK), authority.server("good.test")) as server:
        for _ in range(3):
            trusting.answer(server.at("good.test"))

        assert len(server.requests) == 3


def test_a_connection_that_ends_with_a_tls_error_is_stale_as_well(
    trusting: HttpPusher, authority: Authority
) -> None:
    forgotten = b"what a middlebox says after it has forgotten the connection"
    first = playing(READ, OK, READ, lambda peer: peer.send_raw(forgotten), WAIT)
    with Server(by_turns(first, once(OK)), authority.server("good.test")) as server:
        for _ in range(2):
            assert trusting.answer(server.at("good.test")).status == 200

        assert server.connections == 2
        assert len(server.requests) == 3


@pytest.mark.parametrize("pause", [0, 0.02], ids=["whole", "dribbled"])
def test_a_late_answer_is_awaited_as_on_a_plain_connection(
    trusting: HttpPusher, authority: Authority, pause: float
) -> None:
    """Dribbled: every byte is a record of its own, and the first ones come before the timeout."""
    now, waiting = Event(), Waiting(trusting)
    rest = byte_by_byte(OK[4:], pause) if pause else OK[4:]
    with Server(playing(READ, OK[:4], now, rest, END), authority.server("good.test")) as server:
        exchange = waiting.send(server.at("good.test"))
        now.set()

        assert failure_of(exchange) is Failure.TIMED_OUT
        assert answer_of(waiting.reported()).status == 200


CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Resuming(Server):
    """Answers one request a connection, and notes which connections have resumed a session."""

    def __init__(self, authority: Authority, version: ssl.TLSVersion | None = None) -> None:
        context = authority.server("good.test")
        if version:
            context.minimum_version = context.maximum_version = version
        super().__init__(self._answer, context)
        self.resumed: list[bool] = []

    def _answer(self, peer: Peer) -> None:
        self.resumed.append(peer.is_resumed)
        peer.read()
        peer.send(CLOSING)


def push_to(pusher: HttpPusher, server: Server, host: str = "good.test") -> None:
    assert pusher.answer(server.at(host)).status == 200


@pytest.mark.parametrize("version", VERSIONS)
def test_a_later_connection_resumes_the_session(
    trusting: HttpPusher, authority: Authority, version: ssl.TLSVersion
) -> None:
    with Resuming(authority, version) as server:
        for _ in range(3):
            push_to(trusting, server)

        assert server.resumed == [False, True, True]


def test_no_endpoint_resumes_the_session_of_another(
    trusting: HttpPusher, authority: Authority
) -> None:
    with Resuming(authority) as server:
        push_to(trusting, server)
        push_to(trusting, server, "GOOD.test.")

        assert server.resumed == [False, False]


def test_a_peer_that_has_forgotten_the_session_is_greeted_anew(
    trusting: HttpPusher, authority: Authority
) -> None:
    with Resuming(authority) as server:
        push_to(trusting, server)
        server.use_tls(authority.server("good.test"))
        push_to(trusting, server)
        push_to(trusting, server)

        assert server.resumed == [False, False, True]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_certificate_is_verified_again_after_an_hour(
    trust: ssl.SSLContext, authority: Authority, version: ssl.TLSVersion
) -> None:
    """However often its session was resumed meanwhile."""
    time = Seconds()
    pusher = HttpPusher(LOCAL, tls=trust, lookup=always_at("127.0.0.1"), pool=Pool(clock=time))
    with Resuming(authority, version) as server, pusher:
        for now in (0, 1800, 3599, 3601, 5400):
            time.seconds = now
            push_to(pusher, server)

        assert server.resumed == [False, True, True, False, True]


def test_at_most_so_many_sessions_are_remembered(
    trusting: HttpPusher, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_MAX_SESSIONS", 1)
    with Resuming(authority) as first, Resuming(authority) as second:
        for server in (first, second, first, first):
            push_to(trusting, server)

        assert (first.resumed, second.resumed) == ([False, False, True], [False])
