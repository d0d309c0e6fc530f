"""Reads the address of a publisher and checks it against the topic's IP rules."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

from shared.errors import Forbidden
from shared.events.topic import Topic
from shared.http import HttpRequest

Address = IPv4Address | IPv6Address

# An address with or without a port; with a port, an IPv6 address is in brackets.
_HOP = re.compile(r"\[([^\[\]]+)\](?::\d{1,5})?|([^:]+)(?::\d{1,5})?|([^\[\]]+)", re.ASCII)


def client_address(request: HttpRequest, header: str | None) -> Address | None:
    """
    Return the client's address from *header*, which the front end sets.

    The last entry of a list counts: the front end appends it, and the client can forge the others.
    ``None``: the header is missing or has no address.
    """
    if header is None:
        return None
    hop = request.headers.get(header, "").rpartition(",")[2].strip().strip('"')
    match = _HOP.fullmatch(hop)
    if match is None:
        return None
    try:
        address = ip_address(match[1] or match[2] or match[3])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def check_network(topic: Topic, client: Address | None) -> None:
    """
    Check that the address *client* may publish to *topic*; an unknown one satisfies no rule.

    Raises:
        Forbidden: the topic has IP rules, and none allows the address.

    Source: Event Grid "Troubleshoot errors", error code 403 (contract §1.6).
    """
    rules = topic.inbound_rules
    if rules and not (client and any(client in network for network in rules)):
        raise Forbidden(
            f"Publishing to Topic {topic.name} by client {client or 'unknown'} is rejected"
            " because of IpAddress filtering rules."
        )
