"""The guard judges the address that is connected to; what it refuses gets no packet."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import pytest

from shared.adapters.http.outbound_guard import Address, OutboundGuard
from shared.adapters.http.resolver import Lookup, NameServers
from shared.http import Failure
from tests.integration.push.names import always_at, looked_up
from tests.integration.push.on_loop import HttpPusher, failure_of, run
from tests.integration.push.scripted import LOCAL, OK, Server, always, once

CLOSED = OutboundGuard(allow_http=True)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "localhost",
        "LOCALHOST",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::1]",
        "0.0.0.0",  # noqa: S104 - nothing binds it
        "0",
        "inner.test",
    ],
)
def test_no_name_for_loopback_gets_a_packet(host: str) -> None:
    system_names = NameServers()

    def lookup(name: str) -> Sequence[Address]:
        if name == "inner.test":
            return [ip_address("127.0.0.1"), ip_address("::1")]
        return run(system_names(name))

    with HttpPusher(CLOSED, lookup=looked_up(lookup)) as pusher, Server(always(OK)) as server:
        assert pusher.unanswered(server.at(host)).failure is Failure.NOT_ALLOWED
        assert server.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"])
def test_an_allowed_address_is_reached_however_written(pusher: HttpPusher, host: str) -> None:
    with Server(always(OK)) as server:
        pusher.answer(server.at(host))
        assert f"Host: {host}:{server.port}\r\n".encode() in server.requests[0]


def test_a_name_that_is_bound_again_gets_no_packet() -> None:
    """127.0.0.2 plays the public address, 127.0.0.3 the one behind the firewall."""
    answers = iter(["127.0.0.2", "127.0.0.3"])
    guard = OutboundGuard(allow_http=True, allowed_networks=[ip_network("127.0.0.2/32")])
    with (
        HttpPusher(guard, lookup=looked_up(lambda _: [ip_address(next(answers))])) as pusher,
        Server(once(OK), host="127.0.0.2") as outer,
        Server(always(OK), host="127.0.0.3", port=outer.port) as inner,
    ):
        url = outer.at("rebound.test")
        pusher.answer(url)
        outer.join()

        assert pusher.unanswered(url).failure is Failure.NOT_ALLOWED
        assert (outer.connections, inner.connections) == (1, 0)


def here_for(asked: list[str]) -> Lookup:
    """Return a lookup that finds this machine, and adds the names that it was asked for."""

    def find(host: str) -> Sequence[Address]:
        asked.append(host)
        return [ip_address("127.0.0.1")]

    return looked_up(find)


def test_a_name_is_resolved_once_for_a_connection() -> None:
    asked: list[str] = []
    with HttpPusher(LOCAL, lookup=here_for(asked)) as pusher, Server(always(OK)) as server:
        for _ in range(3):
            pusher.answer(server.at("once.test"))
            assert f"Host: once.test:{server.port}".encode() in server.requests[-1]

        assert asked == ["once.test"]


def test_of_several_addresses_only_allowed_ones_are_tried() -> None:
    guard = OutboundGuard(allow_http=True, allowed_networks=[ip_network("127.0.0.2/31")])
    candidates = always_at("127.0.0.4", "::1", "127.0.0.3", "127.0.0.2")
    with (
        HttpPusher(guard, lookup=candidates) as pusher,
        Server(always(OK), host="127.0.0.2") as allowed,
        Server(always(OK), host="127.0.0.4", port=allowed.port) as refused,
    ):
        pusher.answer(allowed.at("several.test"))

        assert (allowed.connections, refused.connections) == (1, 0)


def test_scheme_and_own_host_are_refused_before_anything_is_resolved() -> None:
    asked: list[str] = []
    guard = OutboundGuard(
        allowed_networks=[ip_network("0.0.0.0/0")], app_addresses=[("app.test", 443)]
    )
    pusher = HttpPusher(guard, lookup=here_for(asked))
    for url in ("http://other.test/", "https://app.test/", "https://APP.test.:443/"):
        assert pusher.unanswered(url).failure is Failure.NOT_ALLOWED
    assert asked == []


def test_an_identity_endpoint_gets_no_packet() -> None:
    with Server(always(OK)) as server:
        guard = OutboundGuard(
            allow_http=True,
            allowed_networks=[ip_network("127.0.0.0/8")],
            identity_endpoints={("127.0.0.1", server.port)},
        )
        none = HttpPusher(guard).push(f"http://localhost:{server.port}/msi/token")

        assert failure_of(none) is Failure.NOT_ALLOWED
        assert server.connections == 0


@pytest.mark.parametrize(
    ("url", "headers"),
    [("http://127.0.0.1:{port}/a b", {}), ("http://127.0.0.1:{port}/", {"x": "a\r\ny: b"})],
)
def test_what_can_not_be_sent_is_not(pusher: HttpPusher, url: str, headers: dict[str, str]) -> None:
    with Server(always(OK)) as server:
        none = pusher.push(url.format(port=server.port), headers=headers)

        assert failure_of(none) is Failure.UNSENDABLE
        assert server.connections == 0


@pytest.mark.parametrize("found", ["nothing", "error"])
def test_a_name_that_is_not_found(found: str) -> None:
    def lookup(host: str) -> Sequence[Address]:
        if found == "error":
            raise OSError(-2, f"{host} unknown")
        return []

    none = HttpPusher(LOCAL, lookup=looked_up(lookup)).push("http://missing.test/")

    assert failure_of(none) is Failure.RESOLUTION


def test_the_system_does_not_know_an_invalid_name(pusher: HttpPusher) -> None:
    """`.invalid` never resolves (RFC 2606)."""
    assert pusher.unanswered("http://nobody.invalid/").failure is Failure.RESOLUTION


def test_the_environments_proxies_are_ignored(
    pusher: HttpPusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(always(OK)) as proxy, Server(always(OK)) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        pusher.answer(server.url)

        assert proxy.connections == 0
