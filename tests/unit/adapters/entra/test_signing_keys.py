"""When keys are fetched, and what serves while they can't be."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from pushgrid.testing.memory.clock import FakeClock
from pushgrid.testing.memory.pushing import ScriptedPusher, answered
from shared.adapters.entra.access_tokens import SigningKeys
from shared.adapters.threads import SystemThreads
from shared.errors import SigningKeysUnavailable
from shared.http import Exchange, Failure, NotAnswered
from tests.tokens import jwk, key_set

_URL = "https://login.example/keys?code=s3cret"
_SILENT = NotAnswered(Failure.TIMED_OUT, "", 4.0)


class World:
    def __init__(self, *exchanges: Exchange) -> None:
        self.clock = FakeClock()
        self.pusher = ScriptedPusher(self.clock)
        self.pusher.script(_URL, *exchanges)
        self.keys = SigningKeys(_URL, lambda: self.pusher, SystemThreads(self.clock.monotonic))

    @property
    def fetched(self) -> int:
        return len(self.pusher.sent)

    def after(self, **time: float) -> World:
        self.clock.advance(timedelta(**time))
        return self

    def key(self, kid: str) -> object:
        return self.keys.key(kid)

    def held(self) -> tuple[Event, Event]:
        """Hold the next fetch; return what says that it has begun, and what lets it end."""
        fetching, may_end = Event(), Event()
        send = self.pusher.send

        async def held(*request: Any) -> Exchange:
            fetching.set()
            assert may_end.wait(30)
            return await send(*request)

        self.pusher.send = held  # type: ignore[method-assign,assignment]
        return fetching, may_end

    def is_unavailable(self, kid: str) -> bool:
        try:
            self.keys.key(kid)
        except SigningKeysUnavailable:
            return True
        return False


def _serving(*keys: dict[str, Any] | str) -> Exchange:
    return answered(200, key_set(*keys))


def test_keys_are_fetched_at_the_first_token_and_kept() -> None:
    world = World(_serving("k1", "k2"))

    assert world.fetched == 0
    assert [bool(world.keys.key(kid)) for kid in ("k1", "k2", "k1")] == [True] * 3
    assert world.fetched == 1
    assert world.pusher.sent[0].request.method == "GET"


def test_an_unknown_key_is_asked_for_once_a_minute() -> None:
    world = World(_serving("k1"), _serving("k1", "k2"))
    assert world.keys.key("k1")

    assert [world.keys.key(f"x{number}") for number in range(100)] == [None] * 100
    assert world.after(seconds=59).key("k2") is None
    assert world.fetched == 1
    assert world.after(seconds=1).key("k2")
    assert world.fetched == 2


def test_keys_are_as_old_as_the_beginning_of_their_fetch() -> None:
    """A process that was frozen meanwhile would take a withdrawn key for another hour."""
    world = World(_serving("k1"), _serving("k2"))
    send = world.pusher.send

    async def frozen(*request: Any) -> Exchange:
        exchange = await send(*request)
        world.after(hours=1)
        return exchange

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(world.pusher, "send", frozen)
        assert world.keys.key("k1")

    assert world.after(seconds=1).key("k1") is None
    assert world.fetched == 2


def test_keys_are_renewed_after_an_hour_and_withdrawn_ones_forgotten() -> None:
    world = World(_serving("k1", "k2"), _serving("k2"))
    assert world.keys.key("k1")

    assert world.after(minutes=59).key("k1")
    assert world.fetched == 1
    assert world.after(minutes=1).key("k1") is None
    assert (world.fetched, bool(world.keys.key("k2"))) == (2, True)


@pytest.mark.parametrize(
    "failure",
    [
        _SILENT,
        answered(500),
        answered(302, headers={"location": "https://evil.example"}),
        answered(200, b"{"),
        answered(200, b"[" * 60_000),
        answered(200, b'{"keys":{}}'),
        answered(200, b'{"keys":7}'),
        answered(200, b'{"keys":[1,{}]}'),
        answered(200, key_set("k9")[:-9]),
    ],
    ids=range(9),
)
def test_while_fetching_fails_known_keys_serve(failure: Exchange) -> None:
    world = World(_serving("k1"), failure, failure, _serving("k1", "k2"))
    assert world.keys.key("k1")

    assert world.after(hours=1).key("k1")
    assert world.is_unavailable("k2")
    assert world.fetched == 2  # what is not known for sure is not denied, nor asked for at once
    assert world.after(seconds=60).key("k1")
    assert world.is_unavailable("k2")
    assert world.after(seconds=60).key("k2")


def test_keys_that_cannot_be_renewed_end_after_two_hours() -> None:
    """Asked for at any moment, though the latest try is a second old."""
    world = World(_serving("k1"), *[_SILENT] * 3, _serving("k1"))
    assert world.keys.key("k1")
    assert world.after(minutes=119, seconds=58).key("k1")
    assert world.after(seconds=1.9).key("k1")
    assert world.fetched == 2

    assert world.after(seconds=0.1).is_unavailable("k1")
    assert world.fetched == 3
    assert world.after(seconds=5).is_unavailable("k1")
    assert world.after(seconds=5).key("k1")


def test_who_is_idle_for_hours_waits_for_the_keys_with_all_others() -> None:
    world = World(_serving("k1"), _serving("k2"))
    assert world.keys.key("k1")
    world.clock.advance(timedelta(hours=2))
    fetching, may_end = world.held()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(world.keys.key, "k1")
        assert fetching.wait(30)
        second = pool.submit(world.keys.key, "k1")
        wait([second], 0.2)  # Were it to get the old key, it would have it by now.
        may_end.set()

    assert (first.result(), second.result(), world.fetched) == (None, None, 2)


def test_without_any_key_fetching_is_tried_again_soon() -> None:
    world = World(_SILENT, _SILENT, _serving("k1"))

    assert [world.is_unavailable("k1") for _ in range(10)] == [True] * 10
    assert world.fetched == 1
    world.clock.advance(timedelta(seconds=5))
    assert world.is_unavailable("k1")
    assert world.after(seconds=5).key("k1")
    assert world.fetched == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"kty": "EC"},
        {"kty": ...},
        {"use": "enc"},
        {"alg": "HS256"},
        {"alg": "RS512"},
        {"n": ...},
        {"n": "é"},
        {"n": 5},
        {"e": ""},
        {"kid": ...},
        {"kid": 1},
    ],
)
def test_what_is_no_key_for_us_is_passed_over(changes: dict[str, Any]) -> None:
    world = World(_serving(jwk("k1", **changes), "k2"))

    assert world.keys.key("k1") is None
    assert world.keys.key("k2")


def test_while_one_fetches_known_keys_serve_and_unknown_ones_wait() -> None:
    world = World(_serving("k1"), _serving("k1", "k2"))
    assert world.keys.key("k1")
    world.clock.advance(timedelta(hours=1))
    fetching, may_end = world.held()
    with ThreadPoolExecutor(4) as pool:
        unknown = [pool.submit(world.keys.key, "k2") for _ in range(4)]
        assert fetching.wait(30)
        assert world.keys.key("k1")
        may_end.set()

    assert all(each.result() for each in unknown)
    assert world.fetched == 2


def test_a_key_may_leave_out_what_it_is_for() -> None:
    world = World(_serving(jwk("k1", use=...), jwk("k2", alg="RS256")))

    assert world.keys.key("k1")
    assert world.keys.key("k2")


def test_a_secret_is_never_taken_for_a_key() -> None:
    secret = {"kty": "oct", "kid": "k1", "k": "c2VjcmV0", "alg": "RS256"}
    world = World(answered(200, json.dumps({"keys": [secret, jwk("k2")]}).encode()))

    assert world.keys.key("k1") is None


def test_the_query_of_the_url_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert World(_SILENT).is_unavailable("k1")

    assert "signing_keys.unavailable" in caplog.text
    assert "https://login.example/keys" in caplog.text
    assert "s3cret" not in caplog.text
