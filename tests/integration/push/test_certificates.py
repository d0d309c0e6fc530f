"""Certificates: of a deployment, to trust and to present; and of a peer that is examined."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from shared import http
from shared.adapters.http import dialer
from shared.adapters.http.tls import TlsMaterial, client_tls, parse_certificate
from shared.clock import SystemClock
from shared.http import Exchange, Failure, OutboundRequest
from shared.wiring.function_app import FunctionApp
from tests.integration.push.authority import Authority
from tests.integration.push.names import always_at
from tests.integration.push.on_loop import HttpPusher, answer_of, failure_of, unanswered
from tests.integration.push.scripted import LOCAL, OK, Peer, Server, always, forwarding


def push_with(material: TlsMaterial, server: Server) -> Exchange:
    """Push to *server*, which is good.test, with a sender of its own."""
    with HttpPusher(LOCAL, tls=client_tls(material), lookup=always_at("127.0.0.1")) as pusher:
        return pusher.push(server.at("good.test"))


@pytest.mark.parametrize("is_text", [False, True])
def test_a_bundle_adds_to_the_systems_authorities(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_text: bool
) -> None:
    system = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(system.bundle))
    bundle = authority.bundle.read_text() if is_text else str(authority.bundle)
    with ExitStack() as servers:
        ours, others = (
            servers.enter_context(Server(always(OK), each.server("good.test")))
            for each in (authority, system)
        )

        assert failure_of(push_with(TlsMaterial(), ours)) is Failure.TLS
        for server in (ours, others):
            assert answer_of(push_with(TlsMaterial(bundle), server)).status == 200


class Demanding(Server):
    """Answers clients with a certificate only, and notes whose."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        super().__init__(self._answer, self.context_for("good.test"))
        self.clients: list[str] = []

    def context_for(self, host: str) -> ssl.SSLContext:
        context = self._authority.server(host)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self._authority.bundle)
        return context

    def _answer(self, peer: Peer) -> None:
        self.clients.append(peer.client_name)
        always(OK)(peer)


@pytest.fixture
def demanding(authority: Authority) -> Iterator[Demanding]:
    with Demanding(authority) as server:
        yield server


@pytest.mark.parametrize("form", ["file", "text", "two files", "two texts", "encrypted"])
def test_a_client_certificate_is_presented(
    authority: Authority, demanding: Demanding, tmp_path: Path, form: str
) -> None:
    password = "known to us" if form == "encrypted" else None
    both = authority.issue("app.test", password=(password or "").encode())
    key, mark, chain = both.read_text().partition("-----BEGIN CERTIFICATE")
    own, own_key = str(both), None
    if form == "text":
        own = both.read_text()
    if form == "two texts":
        own, own_key = mark + chain, key
    if form == "two files":
        (tmp_path / "key.pem").write_text(key)
        (tmp_path / "chain.pem").write_text(mark + chain)
        own, own_key = str(tmp_path / "chain.pem"), str(tmp_path / "key.pem")
    material = TlsMaterial(str(authority.bundle), own, own_key, password)

    assert answer_of(push_with(material, demanding)).status == 200
    assert demanding.clients == ["app.test"]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the app's settings, as they are without their prefix."""
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")

    def set_all(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"PUSHGRID_{name}", value)

    return set_all


def test_the_app_sends_with_the_certificates_and_the_proxy_of_its_settings(
    authority: Authority, demanding: Demanding, configure: Callable[..., None]
) -> None:
    # The name is an address here: nothing but the system resolves names for the app.
    demanding.use_tls(demanding.context_for("127.0.0.1"))
    with Server(forwarding) as proxy:
        configure(
            ALLOWED_NETWORKS="127.0.0.0/8",
            CA_BUNDLE=str(authority.bundle),
            CLIENT_CERTIFICATE=str(authority.issue("app.test", password=b"known to us")),
            CLIENT_KEY_PASSWORD="known to us",
            EGRESS_PROXY=f"http://127.0.0.1:{proxy.port}",
        )
        with HttpPusher.over(FunctionApp().outbound.http) as pusher:
            answered = pusher.answer(demanding.at("127.0.0.1"))

        assert answered.status == 200
        assert demanding.clients == ["app.test"]
        assert proxy.connections == 1


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ({"CA_BUNDLE": "/nowhere.pem"}, "CA_BUNDLE"),
        ({"CA_BUNDLE": "-----BEGIN nothing"}, "CA_BUNDLE"),
        ({"CLIENT_CERTIFICATE": "/nowhere.pem"}, "CLIENT_CERTIFICATE"),
        ({"CLIENT_KEY_PASSWORD": "another"}, "CLIENT_CERTIFICATE"),
        ({"CLIENT_KEY_PASSWORD": ""}, "CLIENT_CERTIFICATE"),  # OpenSSL would ask at the terminal
        ({"CLIENT_KEY": "/nowhere.pem"}, "CLIENT_CERTIFICATE"),
        ({"CLIENT_CERTIFICATE": "", "CLIENT_KEY": "x"}, "CLIENT_CERTIFICATE"),
    ],
)
def test_what_cannot_be_loaded_is_a_fault_of_the_settings(
    authority: Authority, configure: Callable[..., None], fault: dict[str, str], name: str
) -> None:
    right = {
        "CA_BUNDLE": str(authority.bundle),
        "CLIENT_CERTIFICATE": str(authority.issue("app.test", password=b"known to us")),
        "CLIENT_KEY_PASSWORD": "known to us",
    }
    configure(**right)
    assert FunctionApp().settings_fault is None

    configure(**right | fault)
    found = FunctionApp().settings_fault

    assert found is not None
    assert [each.target for each in found.faults] == [f"PUSHGRID_{name}"]
    assert found.message.startswith(f"PUSHGRID_{name}")
    assert "known to us" not in found.message


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
            trusting.push(server.at("good.test"))
            found = answer_of(examine(trusting, server.at("good.test"))).peer

            assert found
            assert found.certificate
            assert found.address == "127.0.0.1"
            assert found.certificate.subject.startswith("CN=good.test,")
            assert found.certificate.issuer.endswith("O=Test authority")
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
        found = answer_of(examine(trusting, server.at("good.test"))).peer

    assert found == http.Peer("127.0.0.1", None)


@pytest.mark.parametrize(
    ("host", "options", "matches", "detail"),
    [
        ("other.test", {}, False, "Hostname mismatch"),
        ("good.test", {"ends_in": -timedelta(days=1)}, True, "certificate has expired"),
        ("good.test", {"by_another": True}, True, "certificate verify failed"),
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
        none = unanswered(examine(trusting, server.at("good.test")))

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
