"""Signatures by the official clients, and a signer for tests."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from urllib.parse import quote

from tests.builders import KEY
from tests.unit.events.publishing import URL

# Contract §1.7. The first was made by the official client.
VECTORS = {
    "python": "r=https%3A%2F%2Forders.local-1.eventgrid.azure.net%2Fapi%2Fevents%3FapiVersion%3D"
    "2018-01-01&e=2030-01-01%2000%3A00%3A00%2B00%3A00"
    "&s=QESh36VGyCwmRtrxTNL5EtqRDRnC%2F3YlBoFejqozKuo%3D",
    ".net": "r=https%3a%2f%2forders.local-1.eventgrid.azure.net%2fapi%2fevents%3fapi-version%3d"
    "2018-01-01&e=1%2f1%2f2030+12%3a00%3a00+AM+%2b00%3a00"
    "&s=CqUghN%2fGtV8kk3DAcV9Szk2Q8H8wgzh6YLGw4WeDwno%3d",
    "js": "r=https%3A%2F%2Forders.local-1.eventgrid.azure.net%2Fapi%2Fevents%3FapiVersion%3D"
    "2018-01-01&e=1%2F1%2F2030%2012%3A00%3A00%20AM"
    "&s=EtMtDTgrqOQx628C2D%2Fmw%2FZL4uWGM1UhQJCwOZlhArY%3D",
    "docs": "r=https%3A%2F%2Forders.local-1.eventgrid.azure.net%2Fapi%2Fevents"
    "&e=2030-01-01T00%3A00%3A00Z&s=kGeHtqXIyvnJE4a6XTfFkYto6LgI4bg9HItGFEpdgdo%3D",
}


def sign(resource: str = URL, expiry: str = "2030-01-01T00:00:00Z", key: str = KEY) -> str:
    return seal(f"r={quote(resource, safe='')}&e={quote(expiry, safe='')}", key)


def seal(signed: str, key: str = KEY) -> str:
    value = hmac.new(b64decode(key), signed.encode(), hashlib.sha256).digest()
    return f"{signed}&s={quote(b64encode(value), safe='')}"
