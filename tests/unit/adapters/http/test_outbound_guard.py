"""What the outbound guard refuses: by address, by name, by scheme."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis.strategies import ip_addresses

from shared.adapters.http.outbound_guard import OutboundGuard

ANY = [ip_network("0.0.0.0/0"), ip_network("::/0")]

#: Addresses by why each is refused.
REFUSED = {
    "unspecified": "0.0.0.0 ::",
    "this network": "0.1.2.3",
    "private": (
        "10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255 "
        "::ffff:10.0.0.1 fc00::1 fd12:3456::1"
    ),
    "carrier-grade NAT": "100.64.0.1 100.127.255.255",
    "loopback": "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1",
    "instance metadata": (
        "169.254.0.1 169.254.169.254 100.100.100.200 192.0.0.192 ::ffff:169.254.169.254 "
        "fd00:42::42 fd00:100::100:200 fd00:a9fe:a9fe::1 fd00:c1::a9fe:a9fe fd00:ec2::254 "
        "fd20:ce::254 fe80::a9fe:a9fe"
    ),
    "wire server": "168.63.129.16 ::ffff:168.63.129.16",
    "protocol": "192.0.0.1 2001:2::1 2001:10::1 2001:20::1 2001:1ff:ffff::1",
    "documentation": "192.0.2.1 198.51.100.7 203.0.113.255 2001:db8::1 3fff::1 3fff:fff:ffff::1",
    "6to4 relay": "192.88.99.1",
    "benchmarking": "198.18.0.1 198.19.255.255",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ffff::1",
    "reserved": "240.0.0.1 255.255.255.255 100:0:0:1::1 200::1 4000::1 fec0::1",
    "IPv4-compatible": "::2 ::7f00:1 ::808:808",
    "IPv4-translated": "::ffff:0:8.8.8.8",
    "NAT64": "64:ff9b::8.8.8.8 64:ff9b::127.0.0.1 64:ff9b:1::1 64:ff9b:1:ffff::8.8.8.8",
    "discard": "100::1",
    "Teredo": "2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "6to4": "2002:7f00:1:: 2002:808:808::1",
    "segment routing": "5f00::1",
    "pod identity": "fd00:ec2::23",
    "link-local": "fe80::1 febf::1",
    "zone": "fe80::1%eth0 2606:4700::1%1",
}
# 2603:1030::a9fe:a9fe only looks like one that hides an IPv4 address.
PUBLIC = (
    "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 20.50.2.10 100.63.255.255 100.128.0.0 "
    "126.255.255.255 128.0.0.1 168.63.129.15 169.253.255.255 169.255.0.0 172.15.255.255 "
    "172.32.0.0 191.255.255.255 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 "
    "223.255.255.255 ::ffff:8.8.8.8 2001:200::1 2603:1030:: 2603:1030::a9fe:a9fe "
    "2001:4860:4860::8888 2603:1030::1 2a01:111::1 3ffe:ffff::1"
)


PLATFORM_IPV4 = (
    "168.63.129.16 169.254.169.254 169.254.170.2 169.254.170.23 100.100.100.200 192.0.0.192"
)
PLATFORM = (
    f"0.0.0.0 :: {PLATFORM_IPV4} 169.254.130.1 fd00:42::42 fd00:100::100:200 fd00:a9fe:a9fe::1 "
    "fd00:c1::a9fe:a9fe fd00:ec2::23 fd00:ec2::254 fd20:ce::254 fe80::a9fe:a9fe fe80::1%1"
)
NAT64_LOCAL = bytes.fromhex("0064ff9b0001")
#: Forms of an IPv4 address that a gateway, or the system, reads as that address.
EMBEDDING: dict[str, Callable[[bytes], bytes]] = {
    "mapped": lambda packed: bytes(10) + b"\xff\xff" + packed,
    "compatible": lambda packed: bytes(12) + packed,
    "translated": lambda packed: bytes(8) + b"\xff\xff\0\0" + packed,
    "NAT64": lambda packed: bytes.fromhex("0064ff9b") + bytes(8) + packed,
    "NAT64, 48 bits": lambda packed: NAT64_LOCAL + packed[:2] + b"\0" + packed[2:] + bytes(5),
    "NAT64, 56 bits": lambda packed: (
        NAT64_LOCAL + b"~" + packed[:1] + b"\0" + packed[1:] + bytes(4)
    ),
    "NAT64, 64 bits": lambda packed: NAT64_LOCAL + b"~~\0" + packed + bytes(3),
    "NAT64, 96 bits": lambda packed: NAT64_LOCAL + b"~" * 6 + packed,
    "6to4": lambda packed: b"\x20\x02" + packed + bytes(10),
    "Teredo, server": lambda packed: b"\x20\x01\0\0" + packed + bytes(8),
    "Teredo, client": lambda packed: (
        b"\x20\x01" + bytes(10) + bytes(each ^ 0xFF for each in packed)
    ),
}


@pytest.mark.parametrize(
    ("address", "why"), [(each, why) for why, all_of in REFUSED.items() for each in all_of.split()]
)
def test_what_is_not_public_is_refused(address: str, why: str) -> None:
    refused = OutboundGuard().refusal(ip_address(address), 443)

    assert refused is not None
    assert why in refused


@pytest.mark.parametrize("address", PUBLIC.split())
def test_what_is_public_is_let_through(address: str) -> None:
    assert OutboundGuard().refusal(ip_address(address), 443) is None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("127.0.0.1", "127.0.0.0/8"),
        ("10.1.2.3", "10.1.0.0/16"),
        ("::ffff:10.1.2.3", "10.1.0.0/16"),
        ("100.64.0.1", "0.0.0.0/0"),
        ("fd12::1", "fd12::/16"),
        ("::1", "::1/128"),
        ("64:ff9b::8.8.8.8", "64:ff9b::/96"),
    ],
)
def test_allowed_networks_open_ranges(address: str, network: str) -> None:
    guard = OutboundGuard(allowed_networks=[ip_network(network)])

    assert guard.refusal(ip_address(address), 443) is None


def test_an_allowed_network_opens_no_other() -> None:
    guard = OutboundGuard(allowed_networks=[ip_network("10.1.0.0/16")])

    assert guard.refusal(ip_address("10.2.0.1"), 443) is not None
    assert guard.refusal(ip_address("::1"), 443) is not None


@pytest.mark.parametrize("address", PLATFORM.split())
def test_platform_addresses_stay_closed_under_every_list(address: str) -> None:
    guard = OutboundGuard(allowed_networks=ANY)

    assert guard.refusal(ip_address(address), 443) is not None


@pytest.mark.parametrize("form", EMBEDDING)
@pytest.mark.parametrize("address", PLATFORM_IPV4.split())
def test_platform_addresses_stay_closed_in_every_form(address: str, form: str) -> None:
    embedded = ip_address(EMBEDDING[form](ip_address(address).packed))
    guard = OutboundGuard(allowed_networks=ANY)

    assert embedded.version == 6
    assert guard.refusal(embedded, 443) is not None
    assert guard.refusal(ip_address(EMBEDDING[form](ip_address("8.8.8.8").packed)), 443) is None


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "::ffff:127.0.0.1"),
        ("127.0.0.1", "127.0.0.2"),
        ("127.0.0.1", "::1"),
        ("localhost", "127.0.0.1"),
        ("[::1]", "127.0.0.1"),
        ("10.0.0.9", "10.0.0.9"),
    ],
)
def test_identity_endpoints_stay_closed_under_every_list(endpoint: str, address: str) -> None:
    guard = OutboundGuard(allowed_networks=ANY, identity_endpoints={(endpoint, 41234)})

    assert guard.refusal(ip_address(address), 41234) is not None
    assert guard.refusal(ip_address(address), 41235) is None


APP_AND_TOKENS = OutboundGuard(
    allowed_networks=ANY,
    app_addresses=[("App.example.net", 443)],
    identity_endpoints={("Tokens.internal", 80)},
)


@pytest.mark.parametrize(
    ("host", "port", "is_refused"),
    [
        ("app.example.net", 443, True),
        ("APP.example.NET", 443, True),
        ("app.example.net.", 443, True),
        ("not-app.example.net", 443, False),
        ("app.example.net", 8443, False),
        ("tokens.internal.", 80, True),
        ("tokens.internal", 81, False),
    ],
)
def test_the_app_itself_and_the_identity_endpoint_are_refused_by_name(
    host: str, port: int, *, is_refused: bool
) -> None:
    assert bool(APP_AND_TOKENS.refuse_server("https", host, port)) is is_refused


@pytest.mark.parametrize(
    ("scheme", "allow_http", "is_refused"),
    [("https", False, False), ("http", False, True), ("http", True, False), ("ftp", True, True)],
)
def test_http_is_refused_unless_allowed(scheme: str, *, allow_http: bool, is_refused: bool) -> None:
    guard = OutboundGuard(allow_http=allow_http)

    assert bool(guard.refuse_server(scheme, "a.example", 443)) is is_refused


@given(address=ip_addresses())
def test_nothing_that_python_knows_to_be_special_gets_through(address: object) -> None:
    """A second opinion: the standard library's tables, which are coarser than ours."""
    known = ip_address(str(address))

    if OutboundGuard().refusal(known, 443) is None:
        assert known.is_global
        assert not known.is_multicast
