"""What is reached by other machines shows no key on the way."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from server.failure import CannotStart
from server.options import LOOPBACK, ServerOptions, bind, check_exposure, port_refused, url_of
from shared.settings import Settings

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - nobody listens there


def options(**given: Any) -> ServerOptions:
    if "host" in given:
        given["host"] = ip_address(given["host"])
    return ServerOptions(data=Path("/data"), **given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"host": "127.1.2.3"},
        {"host": "::1"},
        {"host": EVERY_ADDRESS, "tls_cert": Path("c")},
        {"host": "::", "proxies": [ip_network("10.0.0.0/8")]},
    ],
)
def test_what_is_safe_is_served(given):
    check_exposure(options(**given), Settings(storage={}))


@pytest.mark.parametrize(
    ("given", "settings", "why"),
    [
        ({"host": EVERY_ADDRESS}, {}, "--behind-proxy"),
        ({"host": "10.0.0.1"}, {}, "--tls-cert and --tls-key"),
        ({"tls_key": Path("k")}, {}, "--tls-key needs --tls-cert"),
        ({}, {"client_ip_header": "x-real-ip"}, "PUSHGRID_CLIENT_IP_HEADER"),
    ],
)
def test_what_is_not_is_refused(given, settings, why):
    with pytest.raises(CannotStart, match=why):
        check_exposure(options(**given), Settings(storage={}, **settings))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1"),
        (EVERY_ADDRESS, "http://127.0.0.1"),
        ("::1", "http://[::1]"),
    ],
)
def test_the_url_is_where_this_machine_reaches_it(host, url):
    with bind(ip_address(host), 0) as taken:
        assert url_of(taken, is_tls=False) == f"{url}:{taken.getsockname()[1]}"


def test_a_port_that_a_killed_server_still_has_is_tried_again():
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            held.close()

    held = bind(LOOPBACK, 0)
    held.listen()
    port = held.getsockname()[1]
    with pytest.raises(CannotStart, match="is in use"):
        bind(LOOPBACK, port, again=1, wait=wait)
    bind(LOOPBACK, port, again=2, wait=wait).close()
    assert waits == [0.1] * 3


def test_a_port_for_administrators_is_told_as_such():
    refused = port_refused(ip_address("127.0.0.1"), 80, PermissionError(13, "denied"))

    assert str(refused) == (
        "Port 80 of 127.0.0.1 is for administrators only: choose one above 1023 with --port."
    )
