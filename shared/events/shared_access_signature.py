"""Parses and verifies shared access signatures."""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote, unquote_plus, urlsplit

_FORM = re.compile(r"(r=([^&]+)&e=([^&]+))&s=([^&]+)")
_US_ENGLISH = re.compile(
    r"(\d{1,2})/(\d{1,2})/(\d{4}),? (\d{1,2}):(\d\d):(\d\d) ([AP])M(?: ([+-]\d\d:\d\d))?", re.ASCII
)
_NARROW_SPACES = {0x202F: " ", 0xA0: " "}  # newer ICU writes them before AM and PM
_MAX_EXPIRY = 64
_SLASHES = re.compile("/{2,}")
_HALF_DAY = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A token ``r=…&e=…&s=…``."""

    resource: str
    expires: datetime | None  # ``None``: it can't be read
    signed: str  # exactly as received: clients encode it in different ways
    value: str  # base64

    @classmethod
    def parse(cls, token: str) -> Signature | None:
        """Parse a token; ``None`` if it is malformed."""
        match = _FORM.fullmatch(token)
        if match is None:
            return None
        signed, resource, expiry, value = match.groups()
        return cls(
            resource=unquote_plus(resource),
            expires=_parse_expiry(unquote_plus(expiry)),
            signed=signed,
            value=unquote(value),
        )

    def is_by(self, key: str) -> bool:
        """Tell in constant time whether the base64 *key* made the signature."""
        made = hmac.digest(b64decode(key), _encode(self.signed), hashlib.sha256)
        return hmac.compare_digest(b64encode(made), _encode(self.value))

    def covers(self, url: str) -> bool:
        """
        Tell whether the resource is *url* or a parent path of it, ignoring case.

        Query, scheme and default port are ignored: clients sign different queries, and a proxy that
        ends TLS changes scheme and port. Doubled slashes count as one: a client that joins URLs
        carelessly signs them as well.
        """
        granted, wanted = _comparable_url(self.resource), _comparable_url(url)
        if granted is None or wanted is None or granted[0] != wanted[0]:
            return False
        return f"{wanted[1]}/".startswith(f"{granted[1]}/")


def _comparable_url(url: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(":443").removesuffix(":80")
    path = _SLASHES.sub("/", parts.path.lower()).rstrip("/")
    return (host, path) if host else None


def _parse_expiry(text: str) -> datetime | None:
    """Parse an expiry in any form of the official clients; without offset it is UTC."""
    if len(text) > _MAX_EXPIRY:
        return None
    text = text.translate(_NARROW_SPACES)
    if match := _US_ENGLISH.fullmatch(text):
        month, day, year, hour, minute, second, half, offset = match.groups()
        if not 1 <= int(hour) <= _HALF_DAY:
            return None
        hours = int(hour) % _HALF_DAY + (_HALF_DAY if half == "P" else 0)
        text = f"{year}-{month:0>2}-{day:0>2}T{hours:02}:{minute}:{second}{offset or ''}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
