"""Builds the custom headers of a request: static values, and values from the event."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shared.events.literals import Number, dumps, loads
from shared.subscriptions.header_rules import MAX_VALUE, is_header_value, static_headers
from shared.subscriptions.subscription import DeliveryHeader, DynamicHeader, StaticHeader

# Characters of headers in a note: a queue message holds 64 KiB, 48 of them for its events.
MAX_DEAD_LETTER_HEADERS = 12 * 1024

# A path may use the names of either schema, whichever the event was published in.
_OTHER_NAMES = {
    "topic": "source",
    "source": "topic",
    "eventtype": "type",
    "type": "eventtype",
    "eventtime": "time",
    "time": "eventtime",
}


def custom_headers(headers: Sequence[DeliveryHeader], text: str) -> dict[str, str]:
    """
    Return the custom headers of an event, *text* being its stored text.

    A dynamic header is left out if its path leads to anything but a string, a number or a boolean,
    or if no header can hold the value.

    Source: "Set custom headers on delivered events" (2023-02-21).
    """
    values = static_headers(headers)
    dynamic = [each for each in headers if isinstance(each, DynamicHeader)]
    if dynamic:
        event = loads(text)
        top = {name.casefold(): value for name, value in event.items()}
        for each in dynamic:
            value = _to_text(_find(each.path, top))
            if value is not None and is_header_value(value, MAX_VALUE):
                values[each.name] = value
    return values


def dead_letter_headers(headers: Sequence[DeliveryHeader]) -> tuple[DeliveryHeader, ...]:
    """Return the headers that a dead letter names: no secrets, and as many as fit."""
    named: list[DeliveryHeader] = []
    room = MAX_DEAD_LETTER_HEADERS
    for each in headers:
        if isinstance(each, StaticHeader) and each.is_secret:
            continue
        room -= len(json.dumps(header_texts([each])))
        if room < 0:
            break
        named.append(each)
    return tuple(named)


def header_texts(headers: Sequence[DeliveryHeader]) -> list[list[Any]]:
    """Return each header as its name and its value, or its path in the event."""
    return [
        [each.name, each.value if isinstance(each, StaticHeader) else list(each.path)]
        for each in headers
    ]


def _find(path: Sequence[str], top: Mapping[str, Any]) -> object:
    """Return the value at *path*; only its first name is case-insensitive."""
    first = path[0].casefold()
    value: object = top.get(first, top.get(_OTHER_NAMES.get(first, "")))
    for name in path[1:]:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _to_text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    # Numbers and booleans keep their JSON form.
    return dumps(value) if isinstance(value, (bool, int, float, Number)) else None
