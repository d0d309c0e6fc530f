"""From where may be published: the client's address, and the topic's rules about it."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

from shared.errors import Forbidden
from shared.events.topic import Topic
from shared.http import HttpRequest

Address = IPv4Address | IPv6Address

# An address alone, or with a port: then an IPv6 address is in brackets.
_HOP = re.compile(r"\[([^\[\]]+)\](?::\d{1,5})?|([^:]+)(?::\d{1,5})?|([^\[\]]+)", re.ASCII)


def client_address(request: HttpRequest, header: str | None) -> Address | None:
    """
    Return the address of the client as the front end tells it in *header*.

    Of a list the last entry counts: the front end appends what it saw, and everything before it
    is the client's own word. ``None``: there is no such header, or no address in it.
    """
    hop = request.headers.get(header or "", "").rpartition(",")[2].strip().strip('"')
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
    Let a client pass that may publish to *topic* from where it is; one that is nowhere may not.

    Raises:
        Forbidden: the topic has rules, and none allows its address.

    Source: Event Grid "Troubleshoot errors", error code 403 (contract §1.6).
    """
    rules = topic.inbound_rules
    if rules and not (client and any(client in network for network in rules)):
        raise Forbidden(
            f"Publishing to Topic {topic.name} by client {client or 'unknown'} is rejected"
            " because of IpAddress filtering rules."
        )
