"""Requests through a proxy: every address is judged as without one."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from ipaddress import ip_address

import pytest

from shared.adapters.http.outbound_guard import Address, OutboundGuard
from shared.http import Failure
from shared.settings.network_settings import egress_proxy
from tests.integration.push.authority import Authority
from tests.integration.push.names import looked_up
from tests.integration.push.on_loop import PATIENT, HttpPusher, failure_of
from tests.integration.push.scripted import (
    ESTABLISHED,
    LOCAL,
    OK,
    SHORT,
    Script,
    Server,
    always,
    forwarding,
    never_reading,
    once,
)

MakePusher = Callable[..., HttpPusher]


@pytest.fixture
def make_pusher(trust: ssl.SSLContext) -> Iterator[MakePusher]:
    with ExitStack() as made:

        def make(
            proxy: Server,
            addresses: Sequence[str] = ("127.0.0.1",),
            guard: OutboundGuard = LOCAL,
            user: str = "",
        ) -> HttpPusher:
            names = {"target.test": [ip_address(each) for each in addresses]}
            pusher = HttpPusher(
                guard,
                tls=trust,
                lookup=looked_up(lambda host: names.get(host) or [ip_address("127.0.0.1")]),
                proxy=egress_proxy(f"http://{user}proxy.test:{proxy.port}"),
            )
            made.callback(pusher.close)
            return pusher

        yield make


@pytest.mark.parametrize("is_https", [False, True])
def test_a_request_goes_through_the_proxy(
    make_pusher: MakePusher, authority: Authority, *, is_https: bool
) -> None:
    tls = authority.server("target.test") if is_https else None
    with Server(always(OK), tls) as server, Server(forwarding) as proxy:
        pusher = make_pusher(proxy)
        for _ in range(3):
            assert pusher.answer(server.at("target.test")).body == b"ok"

        assert proxy.connections == 1  # kept, as without a proxy
        line = b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"
        assert proxy.requests == [line % (server.port, server.port)]
        assert b"Host: target.test:%d\r\n" % server.port in server.requests[0]


def test_the_name_in_the_certificate_is_the_endpoints(
    make_pusher: MakePusher, authority: Authority
) -> None:
    with Server(always(OK), authority.server("proxy.test")) as server, Server(forwarding) as proxy:
        none = make_pusher(proxy).push(server.at("target.test"))

        assert failure_of(none) is Failure.TLS


@pytest.mark.parametrize("address", ["169.254.169.254", "10.0.0.1", "::ffff:168.63.129.16"])
def test_a_refused_address_never_gets_to_the_proxy(make_pusher: MakePusher, address: str) -> None:
    with Server(forwarding) as proxy:
        pusher = make_pusher(proxy, [address], OutboundGuard(allow_http=True))

        assert pusher.unanswered("http://target.test/").failure is Failure.NOT_ALLOWED
        literal = f"[{address}]" if ":" in address else address
        assert pusher.unanswered(f"http://{literal}/").failure is Failure.NOT_ALLOWED
        assert proxy.connections == 0


def test_of_several_addresses_only_those_that_are_allowed(make_pusher: MakePusher) -> None:
    with Server(always(OK)) as server, Server(forwarding) as proxy:
        pusher = make_pusher(proxy, ["10.0.0.1", "127.0.0.9", "127.0.0.1"])

        assert pusher.answer(server.at("target.test")).status == 200
        assert [each.split()[1] for each in proxy.requests] == [
            b"127.0.0.9:%d" % server.port,  # where nobody listens
            b"127.0.0.1:%d" % server.port,
        ]


def test_the_proxy_gets_the_credentials_of_the_setting(make_pusher: MakePusher) -> None:
    with Server(always(OK)) as server, Server(forwarding) as proxy:
        pusher = make_pusher(proxy, user="user:p%40ss@")
        answered = pusher.answer(server.at("target.test"))

        assert answered.status == 200
        assert b"\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n" in proxy.requests[0]
        assert b"authorization" not in server.requests[0].lower()


@pytest.mark.parametrize(
    ("script", "failure", "words"),
    [
        (once(b"HTTP/1.1 403 Forbidden\r\n\r\n"), Failure.SOCKET, "the proxy answered 403"),
        (once(b"HTTP/1.1 407 Who are you?\r\n\r\n"), Failure.SHORTAGE, "the proxy answered 407"),
        (once(ESTABLISHED + b"more"), Failure.SOCKET, "the proxy answered 200 with more"),
        (once(b"hello"), Failure.MALFORMED, ""),
        (once(b""), Failure.SOCKET, "closed"),
        (never_reading, Failure.TIMED_OUT, ""),
    ],
)
def test_a_proxy_that_opens_no_tunnel(
    make_pusher: MakePusher, script: Script, failure: Failure, words: str
) -> None:
    with Server(script) as proxy:
        timeout = SHORT if failure is Failure.TIMED_OUT else PATIENT
        none = make_pusher(proxy).unanswered("http://target.test/", timeout)

        assert none.failure is failure
        assert words in none.detail


def test_a_proxy_that_is_not_there(make_pusher: MakePusher) -> None:
    with Server(never_reading) as gone:
        pusher = make_pusher(gone)
    none = pusher.unanswered("http://target.test/")

    refused = "the proxy: connecting to 127.0.0.1: Connection refused"
    assert none[:2] == (Failure.SHORTAGE, refused)


def test_a_proxy_whose_name_is_not_known() -> None:
    def find(host: str) -> list[Address]:
        if host == "proxy.test":
            raise OSError("no such name")
        return [ip_address("127.0.0.1")]

    proxy = egress_proxy("http://proxy.test")
    with HttpPusher(LOCAL, lookup=looked_up(find), proxy=proxy) as pusher:
        none = pusher.unanswered("http://target.test/")

    assert none[:2] == (Failure.SHORTAGE, "the proxy: proxy.test: no such name")
