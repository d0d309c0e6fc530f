"""
Tells requests for this machine from those that a web page elsewhere makes a browser send.

A page can't read the answers of another origin, unless its own name resolves to this machine (DNS
rebinding): then it is in the Host header. A request to the host's own pages does harm even if its
answer can't be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

# RFC 9110, section 7.2; RFC 3986, section 3.2.2. `urlsplit` finds a host in more, such as
# `[::1].attacker.example`, and raises for some that are not ASCII.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z._~%!$&'()*+,;=-]+))(?::[0-9]*)?")
_HERE = ("same-origin", "none")  # Sec-Fetch-Site; none: typed or opened by a person


@lru_cache(maxsize=64)
def is_for(host: str, public_url: str) -> bool:
    """Tell whether a Host header names this machine, or the host of *public_url*, if any."""
    name = host_name(host)
    return bool(name) and (is_loopback(name) or name == _name_in(public_url))


def host_name(host: str) -> str:
    """Return the name or address in a Host header or a URL's authority; empty: it is malformed."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower().removesuffix(".") if found else ""


def is_cross_site(headers: Mapping[str, str]) -> bool:
    """Tell whether a page of another origin had this request sent; header names in lower case."""
    origin = headers.get("origin")
    is_foreign = origin is not None and origin.partition("://")[2] != headers.get("host")
    return is_foreign or headers.get("sec-fetch-site", "none") not in _HERE


def _name_in(url: str) -> str:
    try:
        return host_name(urlsplit(url).netloc)
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    """Tell whether a name or address is this machine's (RFC 6761, section 6.3)."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
