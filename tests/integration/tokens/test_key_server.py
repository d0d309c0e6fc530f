"""Tokens against a real server of keys: rotation, outage, slow answers, and many at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.adapters.entra.access_tokens import EntraTokens
from shared.adapters.entra.signing_keys import SigningKeys
from shared.adapters.http.outbound_guard import OutboundGuard
from shared.adapters.http.push import HttpPusher
from shared.errors import SigningKeysUnavailable
from shared.events.token_claims import Claims, TokenFault
from tests.integration.push.scripted import LOCAL, Peer, Server
from tests.tokens import AUDIENCE, ISSUER, a_token, key_set

_MOST_SECONDS = 10.0  # of one fetch, by its parts: connecting 4 s, headers 4 s, body 2 s


class KeyServer:
    """Serves *body*, or answers with *failing*; *slowly*: byte by byte."""

    def __init__(self) -> None:
        self.body = key_set("k1")
        self.failing: bytes | None = None
        self.slowly = False

    def __call__(self, peer: Peer) -> None:
        while peer.read():
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
            answer = head + b"%d\r\n\r\n" % len(self.body) + self.body
            if self.slowly:
                peer.dribble(answer, pause=0.2)
            else:
                peer.send(self.failing or answer)


@pytest.fixture
def server() -> Iterator[tuple[KeyServer, Server]]:
    script = KeyServer()
    with Server(script) as running:
        yield script, running


class Reader:
    """Reads tokens by the keys of a server; *now* is the seconds that its memory goes by."""

    def __init__(self, url: str, guard: OutboundGuard = LOCAL) -> None:
        self.now = 0.0
        self.pusher = HttpPusher(guard)
        keys = SigningKeys(url, lambda: self.pusher, lambda: self.now)
        self.tokens = EntraTokens(keys, issuers=[ISSUER], audiences=[AUDIENCE])

    def believes(self, kid: str) -> bool:
        verdict = self.tokens.verify(a_token(kid=kid))
        assert isinstance(verdict, Claims) or verdict is TokenFault.SIGNATURE
        return isinstance(verdict, Claims)

    def knows_nothing(self, kid: str) -> bool:
        try:
            self.tokens.verify(a_token(kid=kid))
        except SigningKeysUnavailable:
            return True
        return False


@pytest.fixture
def reader(server: tuple[KeyServer, Server]) -> Iterator[Reader]:
    made = Reader(server[1].url)
    yield made
    made.pusher.close()


def test_keys_are_rotated(server: tuple[KeyServer, Server], reader: Reader) -> None:
    script, running = server
    assert (reader.believes("k1"), reader.believes("k2")) == (True, False)

    script.body = key_set("k1", "k2")
    reader.now += 60
    assert (reader.believes("k2"), reader.believes("k1")) == (True, True)

    script.body = key_set("k2")
    reader.now += 3600
    assert (reader.believes("k1"), reader.believes("k2")) == (False, True)
    assert len(running.requests) == 3
    assert running.requests[0].startswith(b"GET /hook?code=a%2Fb HTTP/1.1\r\n")


def test_an_outage_is_outlived(server: tuple[KeyServer, Server], reader: Reader) -> None:
    script, _ = server
    assert reader.believes("k1")

    script.failing = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    reader.now += 7200
    assert reader.believes("k1")
    assert reader.knows_nothing("k2")

    script.failing = None
    reader.now += 60
    assert reader.believes("k1")


def test_a_server_that_is_gone_is_no_reason_to_refuse_for_good() -> None:
    with Server(KeyServer()) as running:
        reader = Reader(running.url)
    try:
        assert reader.knows_nothing("k1")
        with Server(KeyServer(), port=running.port):
            reader.now += 5
            assert reader.believes("k1")
    finally:
        reader.pusher.close()


def test_a_server_that_dribbles_has_a_deadline(
    server: tuple[KeyServer, Server], reader: Reader
) -> None:
    script, running = server
    script.slowly = True
    begun = time.monotonic()

    assert reader.knows_nothing("k1")

    assert time.monotonic() - begun < _MOST_SECONDS + 5
    assert running.connections == 1
    assert reader.knows_nothing("k1")  # at once: nobody is asked again
    assert running.connections == 1


def test_many_at_once_ask_once(server: tuple[KeyServer, Server], reader: Reader) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(reader.believes, ["k1"] * 64))

    assert len(server[1].requests) == 1


def test_keys_come_through_the_outbound_guard(server: tuple[KeyServer, Server]) -> None:
    reader = Reader(server[1].url, OutboundGuard())

    assert reader.knows_nothing("k1")
    assert server[1].connections == 0
