"""Custom delivery headers: ``deliveryAttributeMappings`` of a destination, read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from shared.subscriptions.sections import Section
from shared.subscriptions.subscription import DeliveryHeader, DynamicHeader, StaticHeader

MEMBER = "deliveryAttributeMappings"
MAX_HEADERS = 10
MAX_VALUE = 4096  # bytes
HIDDEN = "Hidden"  # what a secret value reads back as
_TYPES = ("Static", "Dynamic")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# Event Grid's own and CloudEvents' attributes, and what belongs to the message, the connection or
# the way and not to the event.
_REFUSED = re.compile(
    r"(aeg|ce|webhook|content|proxy)-.*"
    r"|host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect"
    r"|accept-encoding|date|via|forwarded",
    re.IGNORECASE,
)
_PATH = re.compile(r"[A-Za-z0-9]+|data(\.[^.]+)+", re.IGNORECASE)


def parse_attributes(
    destination: Section, known: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """
    Read the mappings of a destination; what is wrong goes to the faults of *destination*.

    A secret that comes as it was shown keeps its value, which the *known*, stored mappings have.

    Source: "Set custom headers on delivered events" (2023-02-21); the refused names beyond
    ``aeg-`` are ours.
    """
    stored: list[dict[str, Any]] = []
    names: set[str] = set()
    secrets = _secrets(known)
    mappings = destination.sections(MEMBER)
    if len(mappings) > MAX_HEADERS:
        destination.refuse(MEMBER, f"There can be {MAX_HEADERS} custom delivery headers.")
    for mapping in mappings:
        name = mapping.required_text("name")
        if name is not None:
            if fault := _name_fault(name, names):
                mapping.refuse("name", fault)
            names.add(name.casefold())
        kind = mapping.required_choice("type", _TYPES)
        properties = mapping.section("properties")
        if kind is not None:
            is_static = kind == "Static"
            secret = secrets.get((name or "").casefold())
            read = _static(properties, secret) if is_static else _dynamic(properties)
            stored.append({"name": name, "type": kind, "properties": read})
    return stored


def render_attributes(stored: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Write stored mappings as ARM does; of secrets only that they are there."""
    return [
        {**mapping, "properties": {**properties, "value": HIDDEN}}
        if (properties := mapping["properties"]).get("isSecret")
        else {**mapping}
        for mapping in stored
    ]


def headers_of(stored: Sequence[Mapping[str, Any]]) -> tuple[DeliveryHeader, ...]:
    """Read stored mappings as the data plane sees them."""
    return tuple(_header(mapping["name"], mapping["properties"]) for mapping in stored)


def static_values(headers: Sequence[DeliveryHeader]) -> dict[str, str]:
    """Return the headers that need no event."""
    return {each.name: each.value for each in headers if isinstance(each, StaticHeader)}


def fits_a_header(value: str, most: int) -> bool:
    """Tell whether a header can hold *value*, and has at most so many bytes."""
    return len(value) <= most and value.isascii() and value.isprintable()


def _header(name: str, properties: Mapping[str, Any]) -> DeliveryHeader:
    if "sourceField" in properties:
        return DynamicHeader(name=name, path=tuple(properties["sourceField"].split(".")))
    return StaticHeader(name=name, value=properties["value"], is_secret=properties["isSecret"])


def _name_fault(name: str, others: set[str]) -> str | None:
    if not _TOKEN.fullmatch(name):
        return f"'{name[:64]}' can't be the name of a header."
    if _REFUSED.fullmatch(name):
        return f"The header {name} can't be set: it is Event Grid's, or HTTP's own."
    if name.casefold() in others:
        return f"The header {name} is set twice."
    return None


def _secrets(stored: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the secret values by their headers' names, which have no case."""
    headers = headers_of(stored)
    return {
        each.name.casefold(): each.value
        for each in headers
        if isinstance(each, StaticHeader) and each.is_secret
    }


def _static(properties: Section, secret: str | None) -> dict[str, Any]:
    """Read a static header; *secret* is its value so far, if it is one that isn't shown."""
    value = properties.required_text("value")
    is_secret = properties.flag("isSecret") or False
    target = properties.target("value")
    if is_secret and value == HIDDEN:
        value = secret
        if secret is None:
            properties.refuse(
                "value",
                f"{target} is '{HIDDEN}', as secrets are shown, but no secret is known by this "
                "header's name: give its value.",
            )
    if value is not None and value != value.strip(" "):
        properties.refuse("value", f"{target} must not begin or end with a space.")
    if value is not None and not fits_a_header(value, MAX_VALUE):
        properties.refuse(
            "value", f"{target} must be at most {MAX_VALUE} printable characters of ASCII."
        )
    return {"value": value, "isSecret": is_secret}


def _dynamic(properties: Section) -> dict[str, Any]:
    path = properties.required_text("sourceField")
    if path is not None and not _PATH.fullmatch(path):
        properties.refuse(
            "sourceField",
            f"{properties.target('sourceField')} must name a member of the event, such as "
            "subject, or lead into its data, such as data.key1.key2.",
        )
    return {"sourceField": path}
