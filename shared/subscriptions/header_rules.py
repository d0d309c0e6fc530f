"""Rules for custom delivery headers: names that are refused and why, and values that fit."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared.subscriptions.subscription import DeliveryHeader, StaticHeader

MAX_VALUE = 4096  # bytes

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_REFUSED = {
    "it is Event Grid's, or an attribute of CloudEvents": r"(aeg|ce|webhook)-.*",
    "it is HTTP's own, and set by what sends or forwards the request": (
        r"(content|proxy|x-forwarded)-.*|host|connection|keep-alive|te|trailer|transfer-encoding"
        r"|upgrade|expect|accept-encoding|date|via|forwarded"
    ),
    # Behind a mistake in the guard they would be what opens these endpoints.
    "it opens endpoints that give a cloud's machines their identity": (
        r"metadata|metadata-flavor|x-aws-ec2-metadata-.*|x-identity-header"
    ),
    "it would say that somebody else sends the request": (
        r"user-agent|cookie|x-ms-client-principal(-.*)?|x-ms-token-.*"
    ),
}
_RULES = [(why, re.compile(names, re.IGNORECASE)) for why, names in _REFUSED.items()]


def header_name_fault(name: str) -> str | None:
    """
    Say what is wrong with the name of a header, if something is.

    Source: "Set custom headers on delivered events" (2023-02-21) for ``aeg-``; the others are ours.
    ``Authorization`` is allowed there.
    """
    if not _TOKEN.fullmatch(name):
        return f"'{name[:64]}' can't be the name of a header."
    for why, names in _RULES:
        if names.fullmatch(name):
            return f"The header {name} can't be set: {why}."
    return None


def static_headers(headers: Sequence[DeliveryHeader]) -> dict[str, str]:
    """Return the headers that need no event."""
    return {each.name: each.value for each in headers if isinstance(each, StaticHeader)}


def is_header_value(value: str, most: int) -> bool:
    """Tell whether a header can hold *value*, and has at most so many bytes."""
    return len(value) <= most and value.isascii() and value.isprintable()
