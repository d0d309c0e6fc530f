"""TLS sessions are resumed for a while, each at its own endpoint."""

from __future__ import annotations

import ssl

import pytest

from pushgrid.testing.memory import Seconds
from shared.adapters.http import tls
from tests.integration.push.authority import Authority
from tests.integration.push.on_loop import HttpPusher
from tests.integration.push.scripted import Peer, Server, answer_of, push

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


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    made = Seconds()
    monkeypatch.setattr(tls, "awake_seconds", made)
    return made


def push_to(pusher: HttpPusher, server: Server, host: str = "good.test") -> None:
    assert answer_of(push(pusher, f"https://{host}:{server.port}/")).status == 200


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
    trusting: HttpPusher, authority: Authority, time: Seconds, version: ssl.TLSVersion
) -> None:
    """However often its session was resumed meanwhile."""
    with Resuming(authority, version) as server:
        for now in (0, 1800, 3599, 3601, 5400):
            time.seconds = now
            push_to(trusting, server)

        assert server.resumed == [False, True, True, False, True]


def test_at_most_so_many_sessions_are_remembered(
    trusting: HttpPusher, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_MAX_SESSIONS", 1)
    with Resuming(authority) as first, Resuming(authority) as second:
        for server in (first, second, first, first):
            push_to(trusting, server)

        assert (first.resumed, second.resumed) == ([False, False, True], [False])
