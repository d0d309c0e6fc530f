"""The address of a client in headers of front ends, and IP rules of topics."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events.authorization import check_network, client_address
from tests.builders import a_topic
from tests.unit.events.publishing import a_request, refusal

_HEADER = "x-forwarded-for"


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7:51234", "203.0.113.7"),
        (" 203.0.113.7 ", "203.0.113.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ('"[2001:db8::1]:443"', "2001:db8::1"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("[::ffff:203.0.113.7]:443", "203.0.113.7"),
        ("203.0.113.7,198.51.100.1:80", "198.51.100.1"),
        ("nonsense, 203.0.113.7:1", "203.0.113.7"),
    ],
)
def test_the_last_hop_is_the_client(value: str, address: str) -> None:
    request = a_request(headers={_HEADER: value})

    assert client_address(request, _HEADER) == ip_address(address)


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "unknown", "_hidden", "203.0.113", "203.0.113.256", "203.0.113.7:x"),
        *("203.0.113.7,", "203.0.113.7, unknown", "203.0.113.07", "203.0.113.0/24", "[::1", "::1]"),
        *("[::1]x", "[203.0.113.7", "for=203.0.113.7", "203.0.113.7 203.0.113.8", ":80", "1:2"),
    ],
)
def test_a_malformed_address_is_ignored(value: str) -> None:
    assert client_address(a_request(headers={_HEADER: value}), _HEADER) is None


def test_only_the_configured_header_counts() -> None:
    request = a_request(headers={"x-azure-clientip": "203.0.113.7"})

    assert client_address(request, _HEADER) is None
    assert client_address(request, None) is None
    assert client_address(a_request(headers={"": "203.0.113.7"}), _HEADER) is None


@given(st.text())
def test_no_header_value_raises(value: str) -> None:
    client_address(a_request(headers={_HEADER: value}), _HEADER)


_RULES = (ip_network("203.0.113.0/24"), ip_network("198.51.100.1/32"), ip_network("2001:db8::/32"))


@pytest.mark.parametrize(
    "client", ["203.0.113.0", "203.0.113.255", "198.51.100.1", "2001:db8:ffff::1"]
)
def test_a_client_in_a_network_passes(client: str) -> None:
    check_network(a_topic(inbound_rules=_RULES), ip_address(client))


@pytest.mark.parametrize("client", ["203.0.114.0", "198.51.100.2", "2001:db9::1", None])
def test_a_client_in_no_network_is_refused_with_its_address(client: str | None) -> None:
    """Contract §1.6, to the letter."""
    refused = refusal(
        check_network, a_topic(inbound_rules=_RULES), ip_address(client) if client else None
    )

    assert refused[:3] == (403, "Forbidden", "Forbidden")
    assert refused[3] == (
        f"Publishing to Topic orders by client {client or 'unknown'} is rejected"
        " because of IpAddress filtering rules."
    )


@pytest.mark.parametrize("client", ["203.0.114.0", None])
def test_without_rules_every_client_passes(client: str | None) -> None:
    check_network(a_topic(), ip_address(client) if client else None)
