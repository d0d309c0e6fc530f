"""TLS: who is trusted, and that the deadlines hold there too."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_address
from queue import SimpleQueue
from threading import Event

import pytest

from shared.adapters.http.tls import TlsMaterial, client_tls
from shared.http import Answered, Failure, LateAnswerHandler, NotAnswered, OutboundRequest
from tests.integration.push.authority import Authority
from tests.integration.push.names import looked_up
from tests.integration.push.on_loop import HttpPusher
from tests.integration.push.scripted import (
    LOCAL,
    OK,
    PATIENCE,
    PATIENT,
    SHORT,
    Peer,
    Script,
    Server,
    always,
    answer_of,
    dribbling,
    failure_of,
    never_reading,
    once,
    push,
)


@pytest.fixture
def tls_pusher(authority: Authority) -> Iterator[HttpPusher]:
    tls = client_tls(TlsMaterial(str(authority.bundle)))
    made = HttpPusher(LOCAL, tls=tls, lookup=looked_up(lambda _: [ip_address("127.0.0.1")]))
    yield made
    made.close()


def test_a_private_authority_is_trusted(tls_pusher: HttpPusher, authority: Authority) -> None:
    with Server(always(OK), authority.server("good.test")) as server:
        outcomes = [push(tls_pusher, f"https://good.test:{server.port}/") for _ in range(5)]

        assert [each.body for each in outcomes if isinstance(each, Answered)] == [b"ok"] * 5
        assert server.connections == 1
        assert f"Host: good.test:{server.port}".encode() in server.requests[0]


@pytest.mark.parametrize("host", ["GOOD.test", "good.test."])
def test_a_name_is_the_same_in_capitals_and_with_a_dot(
    tls_pusher: HttpPusher, authority: Authority, host: str
) -> None:
    with Server(always(OK), authority.server("good.test")) as server:
        assert isinstance(push(tls_pusher, f"https://{host}:{server.port}/"), Answered)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433"])
def test_a_certificate_may_name_an_address(
    tls_pusher: HttpPusher, authority: Authority, host: str
) -> None:
    with Server(always(OK), authority.server("127.0.0.1")) as server:
        assert isinstance(push(tls_pusher, f"https://{host}:{server.port}/"), Answered)


def test_the_name_is_sent_to_the_server(tls_pusher: HttpPusher, authority: Authority) -> None:
    asked: list[str | None] = []
    context = authority.server("good.test")
    context.sni_callback = lambda _, name, __: asked.append(name)
    with Server(always(OK), context) as server:
        push(tls_pusher, f"https://good.test:{server.port}/")

        assert asked == ["good.test"]


@pytest.mark.parametrize("fault", ["wrong name", "expired", "self-signed", "common name only"])
def test_a_bad_certificate_gets_no_request(
    tls_pusher: HttpPusher, authority: Authority, fault: str
) -> None:
    context = authority.server(
        "other.test" if fault == "wrong name" else "good.test",
        ends_in=timedelta(days=-2 if fault == "expired" else 2),
        self_signed=fault == "self-signed",
        is_named=fault != "common name only",
    )
    with Server(always(OK), context) as server:
        assert failure_of(push(tls_pusher, f"https://good.test:{server.port}/")) is Failure.TLS
        assert server.requests == []


@pytest.mark.parametrize("strict", [True, False])
def test_the_systems_trust_does_not_include_ours_unless_set(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, *, strict: bool
) -> None:
    certificate = authority.server("localhost", names_issuers_key=strict)
    with Server(always(OK), certificate) as server:
        url = f"https://localhost:{server.port}/"
        stranger = HttpPusher(LOCAL)
        refused = push(stranger, url)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.bundle))
        trusting = HttpPusher(LOCAL)
        answered = push(trusting, url)
        trusting.close()

        assert failure_of(refused) is Failure.TLS
        assert isinstance(answered, Answered)


def test_old_versions_are_not_spoken() -> None:
    context = client_tls()

    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert not context.hostname_checks_common_name


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_wants_our_certificate(
    tls_pusher: HttpPusher, authority: Authority, version: ssl.TLSVersion
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
        none = push(tls_pusher, f"https://good.test:{server.port}/")

        assert isinstance(none, NotAnswered)
        assert none.failure in {Failure.TLS, Failure.SOCKET}
        if version == ssl.TLSVersion.TLSv1_2:
            assert none.failure is Failure.TLS


def test_a_server_that_does_not_speak_tls(tls_pusher: HttpPusher) -> None:
    def script(peer: Peer) -> None:
        peer.receive()
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with Server(script) as server:
        assert failure_of(push(tls_pusher, f"https://good.test:{server.port}/")) is Failure.TLS


@pytest.mark.parametrize("dribbles", [False, True])
def test_the_handshake_is_bounded(tls_pusher: HttpPusher, dribbles: bool) -> None:  # noqa: FBT001 - a row
    def script(peer: Peer) -> None:
        if dribbles:  # the start of a ServerHello that never ends
            peer.dribble(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03" + bytes(1000))
        peer.wait()

    with Server(script) as server:
        none = push(tls_pusher, f"https://good.test:{server.port}/", SHORT)

        assert isinstance(none, NotAnswered)
        assert none.failure is Failure.TIMED_OUT
        assert none.seconds >= 0.5


@pytest.mark.parametrize("script", [dribbling, never_reading])
def test_the_deadline_holds(tls_pusher: HttpPusher, authority: Authority, script: Script) -> None:
    with Server(script, authority.server("good.test")) as server:
        none = push(tls_pusher, f"https://good.test:{server.port}/", SHORT, body=bytes(20_000_000))

        assert isinstance(none, NotAnswered)
        assert none.failure is Failure.TIMED_OUT
        assert none.seconds >= 0.5


def test_large_bodies_pass_both_ways(tls_pusher: HttpPusher, authority: Authority) -> None:
    """More than a TLS record, more than the buffers of a socket."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + b"x" * 65536
    body = bytes(range(256)) * 12_000
    with Server(always(answer), authority.server("good.test")) as server:
        for _ in range(2):
            answered = answer_of(
                push(tls_pusher, f"https://good.test:{server.port}/", PATIENT, body=body)
            )

            assert answered.body == b"x" * 65536
            assert server.requests[-1].endswith(b"\r\n\r\n" + body)
        assert server.connections == 1


def test_a_stale_connection_is_replaced(tls_pusher: HttpPusher, authority: Authority) -> None:
    with Server(once(OK), authority.server("good.test")) as server:
        for _ in range(3):
            assert isinstance(push(tls_pusher, f"https://good.test:{server.port}/"), Answered)

        assert len(server.requests) == 3


def test_a_connection_that_ends_with_a_tls_error_is_stale_as_well(
    tls_pusher: HttpPusher, authority: Authority
) -> None:
    def script(peer: Peer) -> None:
        peer.read()
        peer.send(OK)
        if peer.number == 1:
            peer.read()
            peer.send_raw(b"what a middlebox says after it has forgotten the connection")
            peer.wait()

    with Server(script, authority.server("good.test")) as server:
        for _ in range(2):
            assert answer_of(push(tls_pusher, f"https://good.test:{server.port}/")).status == 200

        assert server.connections == 2
        assert len(server.requests) == 3


@pytest.mark.parametrize("pause", [0, 0.02], ids=["whole", "dribbled"])
def test_a_late_answer_is_awaited_as_on_a_plain_connection(
    tls_pusher: HttpPusher, authority: Authority, pause: float
) -> None:
    """Dribbled: every byte is a record of its own, and the first ones come before the timeout."""
    now = Event()

    def script(peer: Peer) -> None:
        peer.read()
        peer.send(OK[:4])
        now.wait(PATIENCE)
        if pause:
            peer.dribble(OK[4:], pause)
        else:
            peer.send(OK[4:])
        peer.receive()

    reported: SimpleQueue[Answered] = SimpleQueue()
    with Server(script, authority.server("good.test")) as server:
        url = f"https://good.test:{server.port}/"
        request = OutboundRequest(method="POST", url=url, headers={}, body=b"[]")
        late = LateAnswerHandler(timedelta(minutes=1), reported.put)
        none = tls_pusher.send(request, timedelta(seconds=0.3), late)
        now.set()

        assert failure_of(none) is Failure.TIMED_OUT
        assert reported.get(timeout=PATIENCE).status == 200
