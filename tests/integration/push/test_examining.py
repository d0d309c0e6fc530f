"""A request that examines its peer: the address, and the certificate even if TLS refuses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from ipaddress import ip_address
from typing import Any, NoReturn

import pytest

from shared import http
from shared.adapters.http import dialer
from shared.adapters.http.tls import parse_certificate
from shared.clock import SystemClock
from shared.http import Exchange, Failure, NotAnswered, OutboundRequest
from tests.integration.push.authority import Authority
from tests.integration.push.names import looked_up
from tests.integration.push.on_loop import HttpPusher
from tests.integration.push.scripted import (
    LOCAL,
    OK,
    Peer,
    Server,
    always,
    answer_of,
    failure_of,
    push,
)

CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
LIMIT = timedelta(seconds=20)


@pytest.fixture
def trusting(authority: Authority) -> Iterator[HttpPusher]:
    made = HttpPusher(
        LOCAL, tls=authority.client(), lookup=looked_up(lambda _: [ip_address("127.0.0.1")])
    )
    yield made
    made.close()


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
        exchange = examine(trusting, f"https://good.test:{server.port}/")

        assert isinstance(exchange, NotAnswered)
        assert exchange.failure is Failure.TLS
        assert detail in exchange.detail
        assert exchange.peer
        assert exchange.peer.certificate
        assert exchange.peer.certificate.names == (host,)
        assert exchange.peer.certificate.matches is matches
        assert server.requests == []


def test_without_tls_there_is_no_certificate(pusher: HttpPusher) -> None:
    with Server(always(OK)) as server:
        assert answer_of(examine(pusher, server.url)).peer == ("127.0.0.1", None)


def test_a_guarded_address_is_not_examined(authority: Authority) -> None:
    guarded = HttpPusher(
        LOCAL, tls=authority.client(), lookup=looked_up(lambda _: [ip_address("10.0.0.1")])
    )
    exchange = examine(guarded, "https://good.test/")
    guarded.close()

    assert (failure_of(exchange), exchange.peer) == (Failure.NOT_ALLOWED, None)


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
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    issued = x509.load_pem_x509_certificate(authority.issue(name).read_bytes())

    found = parse_certificate(issued.public_bytes(Encoding.DER), host)

    assert found
    assert found.matches is matches


def _with_an_unknown_name(der: bytes) -> bytes:
    """Make the DNS name an x400Address, whose contents nobody reads."""
    return der.replace(b"\x82\x09good.test", b"\xa3\x09good.test")


def _with_a_repeated_extension(der: bytes) -> bytes:
    """Make the key of the issuer (2.5.29.35) another subjectAltName (2.5.29.17)."""
    return der.replace(b"\x06\x03\x55\x1d\x23", b"\x06\x03\x55\x1d\x11")


def _of_version_9(der: bytes) -> bytes:
    return der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x08", 1)


@pytest.mark.parametrize(
    "damage",
    [_with_an_unknown_name, _with_a_repeated_extension, _of_version_9, lambda _: b"nothing"],
)
def test_a_certificate_that_can_not_be_read_is_none(
    authority: Authority, damage: Callable[[bytes], bytes]
) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    issued = x509.load_pem_x509_certificate(authority.issue("good.test").read_bytes())
    whole = issued.public_bytes(Encoding.DER)

    assert parse_certificate(whole, "good.test")
    assert damage(whole) != whole
    assert parse_certificate(damage(whole), "good.test") is None
