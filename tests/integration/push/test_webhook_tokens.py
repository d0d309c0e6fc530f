"""Tokens for webhooks, with the real library, from an Entra ID on this machine."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest
import trustme
from azure.core.credentials import AccessToken
from azure.core.pipeline.transport import HttpTransport
from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption, load_pem_private_key, pkcs12

from pushgrid.testing.memory import FakeClock, ScriptedPusher, Seconds
from shared.adapters.entra.webhook_tokens import TokenPusher, WebhookTokens, credential_for
from shared.adapters.threads import ThreadPool
from shared.http import Audience, Failure, OutboundRequest
from tests.integration.push.authority import Authority
from tests.integration.push.entra import TENANT, Entra
from tests.integration.push.on_loop import begin, failure_of, run, unanswered
from tests.integration.push.shortage import no_descriptor
from tests.without_loop import at_once

CLIENT = "66666666-7777-8888-9999-aaaaaaaaaaaa"
SECRET = "s3cret-of-the-app"
AUDIENCE = Audience(TENANT, "api://hook.example/")
URL = "https://crm.example/hook"
REQUEST = OutboundRequest("POST", URL, {"x": "y"}, b"[]", AUDIENCE)
TIMEOUT = timedelta(seconds=30)


@pytest.fixture
def entra(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Entra]:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.bundle))
    with Entra(authority) as running:
        yield running


class World:
    """A pusher with tokens, on clocks of its own."""

    def __init__(self, entra: Entra, **proof: str | None) -> None:
        self.seconds = 0.0
        self.clock = FakeClock()
        given: dict[str, Any] = {"secret": SECRET, "certificate": None, **proof}
        credential = credential_for(CLIENT, authority=entra.url, **given)
        off_loop = ThreadPool(2, "tokens")
        self.tokens = WebhookTokens(credential, self.clock, off_loop, lambda: self.seconds)
        self.bare = ScriptedPusher(self.clock)
        self.pusher = TokenPusher(self.bare, self.tokens)

    def send(self) -> str:
        """Send a request, and return the token that it had."""
        run(self.pusher.send(REQUEST, TIMEOUT))
        return self.bare.sent[-1].request.headers["Authorization"]


def test_requests_get_the_token_of_the_audience_which_is_fetched_once(entra: Entra) -> None:
    world = World(entra)

    assert {world.send() for _ in range(10)} == {"Bearer token-1"}
    assert world.bare.sent[-1].request.headers["x"] == "y"
    (asked,) = entra.asked
    assert asked["client_id"] == CLIENT
    assert asked["client_secret"] == SECRET
    assert asked["grant_type"] == "client_credentials"
    assert asked["scope"] == "api://hook.example/.default"


class Held:
    """A credential that waits until it may answer."""

    def __init__(self) -> None:
        self.asked: SimpleQueue[int] = SimpleQueue()
        self.may_answer = Event()
        self._count = 0

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        self._count += 1
        self.asked.put(self._count)
        assert self.may_answer.wait(30)
        ends = FakeClock().now() + timedelta(hours=1)
        return AccessToken(f"token-{self._count}", int(ends.timestamp()))


def test_requests_wait_for_one_fetch_and_use_the_old_token_while_it_is_renewed() -> None:
    held, seconds = Held(), Seconds()
    tokens = WebhookTokens(lambda _: held, FakeClock(), ThreadPool(2, "tokens"), seconds)

    first = [begin(tokens.get(AUDIENCE)) for _ in range(5)]
    assert held.asked.get(timeout=30) == 1
    held.may_answer.set()
    assert {each.result(30).token for each in first} == {"token-1"}

    held.may_answer.clear()
    seconds.seconds = 3300.0
    renewing = begin(tokens.get(AUDIENCE))
    assert held.asked.get(timeout=30) == 2
    assert run(tokens.get(AUDIENCE)).token == "token-1"
    held.may_answer.set()
    assert renewing.result(30).token == "token-2"
    assert run(tokens.get(AUDIENCE)).token == "token-2"
    assert held.asked.empty()


def test_nobody_uses_a_token_that_has_ended() -> None:
    """Two requests after a quiet hour: the second one waits for the new token as well."""
    held, seconds = Held(), Seconds()
    tokens = WebhookTokens(lambda _: held, FakeClock(), ThreadPool(2, "tokens"), seconds)
    held.may_answer.set()
    assert run(tokens.get(AUDIENCE)).token == "token-1"
    held.may_answer.clear()
    seconds.seconds = 3600.0

    first = begin(tokens.get(AUDIENCE))
    held.asked.get(timeout=30)
    assert held.asked.get(timeout=30) == 2
    second = begin(tokens.get(AUDIENCE))
    held.may_answer.set()

    assert {first.result(30).token, second.result(30).token} == {"token-2"}


def test_a_token_that_was_not_asked_for_for_want_of_descriptors_is_a_shortage(entra: Entra) -> None:
    """It was an attempt, and kept the endpoint from events for half a minute."""
    world = World(entra)
    with no_descriptor():
        none = run(world.pusher.send(REQUEST, TIMEOUT))
    world.seconds += 1

    assert failure_of(none) is Failure.SHORTAGE
    assert world.send() == "Bearer token-1"


def test_who_wants_no_token_gets_none(entra: Entra) -> None:
    world = World(entra)

    run(world.pusher.send(REQUEST._replace(audience=None), TIMEOUT))

    assert world.bare.sent[-1].request.headers == {"x": "y"}
    assert entra.asked == []


def test_without_a_token_nothing_is_sent_and_it_is_tried_again_later(entra: Entra) -> None:
    world = World(entra)
    entra.refusal = "AADSTS7000215: Invalid client secret provided."

    first = run(world.pusher.send(REQUEST, TIMEOUT))
    entra.refusal = None
    second = run(world.pusher.send(REQUEST, TIMEOUT))
    world.seconds = 30.0
    third = world.send()

    assert failure_of(first) is Failure.UNAUTHORIZED
    assert "AADSTS7000215" in unanswered(first).detail
    assert SECRET not in repr(first)
    assert second == first
    assert third == f"Bearer token-{len(entra.asked)}"
    assert len(world.bare.sent) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_entra_id_that_can_not_answer_now_has_refused_nothing(
    entra: Entra, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The push waited as long as the answer said."""
    slept: list[float] = []
    monkeypatch.setattr(HttpTransport, "sleep", lambda _, seconds: slept.append(seconds))
    world = World(entra)
    entra.refusal, entra.status = "Try again later.", status

    assert failure_of(run(world.pusher.send(REQUEST, TIMEOUT))) is Failure.NO_AUTHORITY
    assert sum(slept) < 10


@pytest.mark.parametrize("form", ["pem", "pkcs12"])
def test_a_certificate_proves_the_app_as_well(
    entra: Entra, certificate: dict[str, str], form: str
) -> None:
    world = World(entra, secret=None, certificate=certificate[form])

    assert world.send() == "Bearer token-1"
    assert entra.asked[0]["client_assertion_type"].endswith("jwt-bearer")


@pytest.mark.parametrize("text", ["not base64!", base64.b64encode(b"no certificate").decode()])
def test_a_certificate_that_is_none_is_an_outcome_too(entra: Entra, text: str) -> None:
    world = World(entra, secret=None, certificate=text)

    assert failure_of(run(world.pusher.send(REQUEST, TIMEOUT))) is Failure.UNAUTHORIZED


AWAY = credential_for(CLIENT, secret=SECRET, certificate=None, authority="https://127.0.0.1:1")


@pytest.mark.parametrize(
    ("credential", "failure"), [(None, Failure.UNAUTHORIZED), (AWAY, Failure.NO_AUTHORITY)]
)
def test_no_credential_and_no_entra_id_are_outcomes_too(credential: Any, failure: Failure) -> None:
    tokens = WebhookTokens(credential, FakeClock(), at_once, lambda: 0.0)

    exchange = run(TokenPusher(ScriptedPusher(FakeClock()), tokens).send(REQUEST, TIMEOUT))

    assert failure_of(exchange) is failure


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> dict[str, str]:
    """Return the same certificate with its key in both forms."""
    pem = authority.issue("pushgrid", key_type=trustme.KeyType.RSA).read_bytes()
    key, made = load_pem_private_key(pem, None), x509.load_pem_x509_certificate(pem)
    both = pkcs12.serialize_key_and_certificates(b"x", key, made, None, NoEncryption())  # type: ignore[arg-type]
    return {"pem": pem.decode(), "pkcs12": base64.b64encode(both).decode()}
