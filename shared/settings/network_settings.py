"""Reads the settings that say how endpoints are reached: networks, name servers, a proxy."""

from __future__ import annotations

import ipaddress
from base64 import b64encode
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORT = 8080


def networks(text: str) -> tuple[Network, ...]:
    """Parse CIDRs, comma-separated. Raises ValueError for anything else, which is not quoted."""
    return tuple(_network(number, each) for number, each in enumerate(_parts(text), 1))


def _network(number: int, text: str) -> Network:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"entry {number} is not a network: use 10.0.0.0/8 or fd00::/8") from None
    if "%" in text:
        raise ValueError(f"entry {number} has a zone id: remove it")
    if ipaddress.ip_interface(text).ip != network.network_address:
        raise ValueError(f"entry {number} has bits set outside the prefix: use {network}")
    return network


def name_servers(text: str) -> tuple[str, ...]:
    """Parse addresses, each with a port or without, comma-separated. Raises ValueError."""
    return tuple(_name_server(number, each) for number, each in enumerate(_parts(text), 1))


def _name_server(number: int, text: str) -> str:
    try:
        parts = urlsplit(f"//{text}")
        ipaddress.ip_address(parts.hostname or "")
        is_valid = parts.port != 0 and parts.netloc == text
    except ValueError:
        is_valid = False
    if not is_valid:
        how = "use 10.0.0.53, 10.0.0.53:5353 or [fd00::53]"
        raise ValueError(f"entry {number} is not an address: {how}")
    return text


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


class EgressProxy(NamedTuple):
    """Where a proxy is, and the value of Proxy-Authorization for it, if it wants one."""

    host: str
    port: int
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.host}:{self.port})"


def egress_proxy(text: str) -> EgressProxy:
    """
    Parse ``http://[user:password@]host[:port]``.

    Raises:
        ValueError: it is anything else. The text, which may have a password, is not quoted.
    """
    try:
        url = urlsplit(text)
        port = url.port or _PORT
    except ValueError:
        url, port = urlsplit(""), 0
    if url.scheme != "http" or not url.hostname or url.path.strip("/") or url.query or url.fragment:
        raise ValueError("not the URL of a proxy: use http://host:port")
    authorization = None
    if url.username is not None:
        user = f"{unquote(url.username)}:{unquote(url.password or '')}"
        authorization = f"Basic {b64encode(user.encode()).decode()}"
    return EgressProxy(url.hostname, port, authorization)
