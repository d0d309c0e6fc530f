"""A request that examines its peer: the address, and the certificate even if TLS refuses it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from shared import http
from shared.adapters.http import dialer
from shared.adapters.http.tls import parse_certificate
from shared.clock import SystemClock
from shared.http import Exchange, Failure, OutboundRequest
from tests.integration.push.authority import Authority
from tests.integration.push.names import always_at
from tests.integration.push.on_loop import HttpPusher
from tests.integration.push.scripted import (
    LOCAL,
    OK,
    Peer,
    Server,
    always,
    answer_of,
    push,
    unanswered,
)

CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
LIMIT = timedelta(seconds=20)


def examine(pusher: HttpPusher, url: str) -> Exchange:
    request = OutboundRequest("POST", url, {}, b"{}", wants_body=True, examines_peer=True)
    return pusher.send(request, LIMIT)


def test_an_answer_comes_with_the_address_and_the_certificate(
    authority: Authority, trusting: HttpPusher
) -> None:
    """Each time over a new connection, whose certificate is verified anew."""
    resumed: list[bool] = []

    def answer(peer: Peer) -> None:
        resumed.append(peer.is_resumed)
        peer.read()
        peer.send(CLOSING)

    with Server(answer, authority.server("good.test")) as server:
        for _ in range(2):
            push(trusting, f"https://good.test:{server.port}/")
            found = answer_of(examine(trusting, f"https://good.test:{server.port}/")).peer

            assert found
            assert found.certificate
            assert found.address == "127.0.0.1"
            assert found.certificate.subject == "CN=good.test"
            assert found.certificate.issuer == "CN=Test authority"
            assert found.certificate.names == ("good.test",)
            assert found.certificate.valid_until > SystemClock().now()
            assert found.certificate.matches
        assert resumed == [False, False, True, False]  # a push resumes, a test does not


def test_without_a_thread_to_read_it_the_certificate_is_unknown(
    authority: Authority, trusting: HttpPusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_thread(*_: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(dialer, "to_thread", no_thread)
    with Server(always(CLOSING), authority.server("good.test")) as server:
        found = answer_of(examine(trusting, f"https://good.test:{server.port}/")).peer

    assert found == http.Peer("127.0.0.1", None)


@pytest.mark.parametrize(
    ("host", "options", "matches", "detail"),
    [
        ("other.test", {}, False, "Hostname mismatch"),
        ("good.test", {"ends_in": -timedelta(days=1)}, True, "certificate has expired"),
        ("good.test", {"self_signed": True}, True, "certificate verify failed"),
    ],
)
def test_a_certificate_that_is_refused_is_shown_and_nothing_is_sent(
    authority: Authority,
    trusting: HttpPusher,
    host: str,
    options: dict[str, Any],
    *,
    matches: bool,
    detail: str,
) -> None:
    with Server(always(OK), authority.server(host, **options)) as server:
        none = unanswered(examine(trusting, f"https://good.test:{server.port}/"))

        assert none.failure is Failure.TLS
        assert detail in none.detail
        assert none.peer
        assert none.peer.certificate
        assert none.peer.certificate.names == (host,)
        assert none.peer.certificate.matches is matches
        assert server.requests == []


def test_without_tls_there_is_no_certificate(pusher: HttpPusher) -> None:
    with Server(always(OK)) as server:
        assert answer_of(examine(pusher, server.url)).peer == ("127.0.0.1", None)


def test_a_guarded_address_is_not_examined() -> None:
    with HttpPusher(LOCAL, lookup=always_at("10.0.0.1")) as guarded:
        none = unanswered(examine(guarded, "https://good.test/"))

    assert (none.failure, none.peer) == (Failure.NOT_ALLOWED, None)


def der_of(authority: Authority, name: str) -> bytes:
    issued = x509.load_pem_x509_certificate(authority.issue(name).read_bytes())
    return issued.public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("name", "host", "matches"),
    [
        ("*.shop.test", "crm.shop.test", True),
        ("*.shop.test", "CRM.Shop.Test.", True),
        ("*.shop.test", "a.crm.shop.test", False),
        ("*.shop.test", "shop.test", False),
        ("crm.shop.test", "crm.shop.test.", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
    ],
)
def test_the_host_is_compared_as_tls_compares_it(
    authority: Authority, name: str, host: str, *, matches: bool
) -> None:
    found = parse_certificate(der_of(authority, name), host)

    assert found
    assert found.matches is matches


UNREADABLE = {
    # The DNS name is an x400Address, whose contents nobody reads.
    "an unknown name": lambda der: der.replace(b"\x82\x09good.test", b"\xa3\x09good.test"),
    # The key of the issuer (2.5.29.35) is another subjectAltName (2.5.29.17).
    "an extension twice": lambda der: der.replace(b"\x06\x03\x55\x1d\x23", b"\x06\x03\x55\x1d\x11"),
    "version 9": lambda der: der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x08", 1),
    "none": lambda _: b"nothing",
}


@pytest.mark.parametrize("damage", UNREADABLE.values(), ids=UNREADABLE)
def test_a_certificate_that_can_not_be_read_is_none(
    authority: Authority, damage: Callable[[bytes], bytes]
) -> None:
    whole = der_of(authority, "good.test")

    assert parse_certificate(whole, "good.test")
    assert damage(whole) != whole
    assert parse_certificate(damage(whole), "good.test") is None
