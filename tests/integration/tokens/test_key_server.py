"""Tokens against a real server of keys: rotation, slow answers, and the outbound guard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.adapters.entra.access_tokens import EntraTokenVerifier, SigningKeys
from shared.adapters.http.outbound_guard import OutboundGuard
from shared.errors import SigningKeysUnavailable
from shared.events.token_claims import Claims, TokenFault
from tests.integration.push.on_loop import HttpPusher
from tests.integration.push.scripted import LOCAL, Peer, Server
from tests.tokens import AUDIENCE, ISSUER, a_token, key_set


class KeyServer:
    """Serves *body*; *slowly*: its head byte by byte."""

    def __init__(self) -> None:
        self.body = key_set("k1")
        self.slowly = False

    def __call__(self, peer: Peer) -> None:
        while peer.read():
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
            head += b"%d\r\n\r\n" % len(self.body)
            peer.dribble(head, pause=0.2 if self.slowly else 0)
            peer.send(self.body)


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
        self.tokens = EntraTokenVerifier(keys, issuers=[ISSUER], audiences=[AUDIENCE])

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


def test_a_server_that_dribbles_has_a_deadline(
    server: tuple[KeyServer, Server], reader: Reader
) -> None:
    script, running = server
    script.slowly = True

    assert reader.knows_nothing("k1")  # they would come after fifteen seconds

    assert running.connections == 1
    assert reader.knows_nothing("k1")  # at once: nobody is asked again
    assert running.connections == 1


def test_keys_come_through_the_outbound_guard(server: tuple[KeyServer, Server]) -> None:
    reader = Reader(server[1].url, OutboundGuard())

    assert reader.knows_nothing("k1")
    assert server[1].connections == 0
