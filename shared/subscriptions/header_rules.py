"""Validates the names and values of custom delivery headers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from shared.subscriptions.subscription import DeliveryHeader, StaticHeader
from shared.text_faults import TextFaults, text_fault

MAX_VALUE = 4096  # bytes

MAX_NAME = 256  # characters
_TOKEN = re.compile(rf"[!#$%&'*+.^_`|~0-9A-Za-z-]{{1,{MAX_NAME}}}")
_WRONG_VALUES: TextFaults = (
    (r".*[\r\n]\Z", "must not end with a line break: leave it out"),
    (r".*[\r\n]", "must not have a line break"),
    (r" |.* \Z", "must not begin or end with a space"),
    (r".*[^ -~]", "must have printable characters of ASCII alone"),
)
_REFUSED = {
    "it is reserved for Event Grid and CloudEvents": r"(aeg|ce|webhook)-.*",
    "it belongs to HTTP and is set by the sender or a proxy": (
        r"(content|proxy|x-forwarded)-.*|host|connection|keep-alive|te|trailer|transfer-encoding"
        r"|upgrade|expect|accept-encoding|date|via|forwarded"
    ),
    # A second line of defense behind the outbound guard.
    "it gives access to cloud metadata endpoints": (
        r"metadata|metadata-flavor|x-aws-ec2-metadata-.*|x-identity-header"
    ),
    "it would misrepresent the sender of the request": (
        r"cookie|x-ms-client-principal(-.*)?|x-ms-token-.*"
    ),
}
# CGI and WSGI servers read an underscore as a hyphen, PHP a dot too, and others any other sign.
_HYPHENS = re.compile(r"[^0-9A-Za-z]")


@cache
def _rules() -> Sequence[tuple[str, re.Pattern[str]]]:
    """Return why a name is refused, and which: compiled at first use, for the cold start's sake."""
    return [(why, re.compile(names, re.IGNORECASE)) for why, names in _REFUSED.items()]


def header_name_fault(name: str) -> str | None:
    """
    Return the fault of a header name; ``None`` if the name is allowed.

    A name that only differs from a reserved one by case or by signs in place of its hyphens is
    reserved as well: many servers take the one for the other.

    Source: "Set custom headers on delivered events" (2023-02-21) for ``aeg-`` and for allowing
    ``Authorization``; RFC 3875, 4.1.18 for the underscore; the other rules are our own.
    """
    if not _TOKEN.fullmatch(name):
        return f"'{name[:64]}' is not a valid header name: {_name_reason(name)}."
    for why, names in _rules():
        if names.fullmatch(_HYPHENS.sub("-", name)):
            return f"The header {name} can't be set: {why}."
    return None


def _name_reason(name: str) -> str:
    if not name:
        return "it is empty"
    illegal = next((each for each in name if not _TOKEN.fullmatch(each)), None)
    return f"it is longer than {MAX_NAME} characters" if illegal is None else f"it has {illegal!a}"


def header_value_fault(value: str) -> str | None:
    """Return what is wrong with the value of a header, without quoting it; ``None``: nothing."""
    if fault := text_fault(_WRONG_VALUES, value):
        return fault
    return f"must have at most {MAX_VALUE} characters" if len(value) > MAX_VALUE else None


def static_headers(headers: Sequence[DeliveryHeader]) -> dict[str, str]:
    """Return the headers with the same value in every request."""
    return {each.name: each.value for each in headers if isinstance(each, StaticHeader)}


def is_header_value(value: str, max_length: int) -> bool:
    """Tell whether *value* is printable ASCII of at most *max_length* bytes."""
    return len(value) <= max_length and value.isascii() and value.isprintable()
