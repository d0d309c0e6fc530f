"""Defines where events go, a webhook or a storage queue, and which URLs endpoints may have."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar
from urllib.parse import urlsplit

from shared.http import Audience
from shared.text_faults import TextFaults, text_fault

KEPT_SECONDS = 7 * 24 * 3600  # a message that nobody receives, by default: what a queue does itself
INVALID_URL = (
    "Invalid event subscription request: Supplied URL is invalid. It cannot be null or empty and "
    "should be a proper HTTPS URL like https://www.example.com."
)
MAX_URL = 2048
_WEB_PORTS = (80, 443)
_FAULTS: TextFaults = (
    (r"\s|.*\s\Z", "it has a blank or a line break before or after it"),
    (r"[^/]*//[^/?#]*[^\x00-\x7f]", "its host is not in ASCII: write it as xn--…"),
    # Neither in a request line, nor allowed by RFC 3986.
    (r".*([^!-~]|[\"<>\\^`{|}])", "it has characters that must be percent-encoded"),
    (r".*#", "it has a fragment"),
    (r"[^/]*//[^/?]*@", "it has a user name or password"),
)
_ILLEGAL_HOST = "its host is not legal"
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = rf"(?=.{{1,253}}\.?\Z){_LABEL}(\.{_LABEL})*\.?"
_HOST = re.compile(rf"\[(?P<v6>[0-9a-f:.]+)\]|{_NAME}", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(:(?P<port>.*))?")
_MOST_PORT = 65535


class EndpointType(StrEnum):
    """Kinds of endpoint that the delivery rules tell apart."""

    WEBHOOK = "webhook"
    AZURE = "azure"


@dataclass(frozen=True, slots=True)
class WebHook:
    """An HTTP endpoint, whose query may be secret."""

    kind: ClassVar[EndpointType] = EndpointType.WEBHOOK
    url: str = field(repr=False)
    audience: Audience | None = None  # of its tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageQueue:
    """A queue of a storage account."""

    kind: ClassVar[EndpointType] = EndpointType.AZURE
    audience: ClassVar[Audience | None] = None
    account_id: str  # its ARM id
    name: str
    keep_seconds: int = KEPT_SECONDS  # for a message that nobody receives; -1: for ever

    @property
    def account(self) -> str:
        """The account's name."""
        return self.account_id.rpartition("/")[2]

    @property
    def url(self) -> str:
        """The queue's ARM id, by which Azure CLI names it as an endpoint."""
        return f"{self.account_id}/queueServices/default/queues/{self.name}"


Destination = WebHook | StorageQueue


def url_fault(url: str | None, *, allow_http: bool) -> str | None:
    """
    Return the fault of an endpoint's URL; ``None`` if it is valid.

    Source: Event Grid's text as its users report it; the reason in parentheses is our own.
    """
    reason = _url_reason(url or "", allow_http=allow_http)
    return None if reason is None else f"{INVALID_URL} ({reason})"


def base_url(url: str) -> str:
    """Return *url* without its query, which may be secret."""
    return url.partition("?")[0]


def host_addresses(url: str) -> frozenset[tuple[str, int]]:
    """
    Return the (host, port) pairs of *url*; empty if it is invalid.

    Ports 80 and 443 count as one, because a proxy may end TLS.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return frozenset()
    name = (host or "").removesuffix(".")
    ports = _WEB_PORTS if port in (None, *_WEB_PORTS) else (port,)
    return frozenset((name, each) for each in ports) if name else frozenset()


def is_on_loopback(url: str) -> bool:
    """Tell whether a valid URL names this machine: a loopback address, or ``localhost``."""
    host = (urlsplit(url).hostname or "").removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def loop_fault(url: str, own: AbstractSet[tuple[str, int]]) -> str | None:
    """Return the fault of an endpoint at one of our *own* addresses; ``None`` if it is not."""
    for host, _ in host_addresses(url) & own:
        return f"The endpoint's host {host} is this app itself: events would return to it."
    return None


def _url_reason(url: str, *, allow_http: bool) -> str | None:
    if reason := _text_reason(url):
        return reason
    start = url[: len("https://")].lower()
    if start.startswith("http://") and not allow_http:
        return "its scheme is http, which only the app's setting PUSHGRID_ALLOW_HTTP allows"
    if not start.startswith(("https://", "http://")):
        return "it does not begin with https://"
    return _authority_reason(url)


def _text_reason(url: str) -> str | None:
    if not url:
        return "it is missing or empty"
    if len(url) > MAX_URL:
        return f"it is longer than {MAX_URL} characters"
    return text_fault(_FAULTS, url)


def _authority_reason(url: str) -> str | None:
    try:
        authority = _AUTHORITY.fullmatch(urlsplit(url).netloc)
        if authority is None:
            return _ILLEGAL_HOST
        if not authority["host"]:
            return "it has no host"
        host = _HOST.fullmatch(authority["host"])
        if host is None:
            return _ILLEGAL_HOST
        ipaddress.IPv6Address(host["v6"] or "::")
    except ValueError:
        return _ILLEGAL_HOST
    return None if _is_port(authority["port"]) else f"its port is not one of 1 to {_MOST_PORT}"


def _is_port(text: str | None) -> bool:
    return text is None or (
        re.fullmatch("[0-9]{1,5}", text) is not None and 0 < int(text) <= _MOST_PORT
    )
