"""The custom headers of one event's request: what is the same for all, and what the event says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shared.events.literals import Number, dumps, loads
from shared.subscriptions.header_rules import MAX_VALUE, is_header_value, static_headers
from shared.subscriptions.subscription import DeliveryHeader, DynamicHeader, StaticHeader

# Characters: a queue message holds 64 KiB, 48 of them are for events and what they need.
MAX_TOLD = 12 * 1024

# A path may use the names of either schema; which one the event was published in decides.
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
    Return the headers that go along with an event, *text* as it is stored.

    A dynamic one is left out where its path leads to anything but a string, a number or a boolean,
    and where no header can hold the value.

    Source: "Set custom headers on delivered events" (2023-02-21).
    """
    values = static_headers(headers)
    dynamic = [each for each in headers if isinstance(each, DynamicHeader)]
    if dynamic:
        event = loads(text)
        top = {name.casefold(): value for name, value in event.items()}
        for each in dynamic:
            value = _written(_find(each.path, top))
            if value is not None and is_header_value(value, MAX_VALUE):
                values[each.name] = value
    return values


def told_headers(headers: Sequence[DeliveryHeader]) -> tuple[DeliveryHeader, ...]:
    """Return those that a dead letter may tell of: no secrets, and not more than fit beside it."""
    told: list[DeliveryHeader] = []
    room = MAX_TOLD
    for each in headers:
        if isinstance(each, StaticHeader) and each.is_secret:
            continue
        room -= len(json.dumps(header_texts([each])))
        if room < 0:
            break
        told.append(each)
    return tuple(told)


def header_texts(headers: Sequence[DeliveryHeader]) -> list[list[Any]]:
    """Write each header as its name and its value, or the path to it in the event."""
    return [
        [each.name, each.value if isinstance(each, StaticHeader) else list(each.path)]
        for each in headers
    ]


def _find(path: Sequence[str], top: Mapping[str, Any]) -> object:
    """Follow *path*: its first name whatever its case, the others as they are."""
    first = path[0].casefold()
    value: object = top.get(first, top.get(_OTHER_NAMES.get(first, "")))
    for name in path[1:]:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _written(value: object) -> str | None:
    if isinstance(value, str):
        return value
    # Numbers and booleans as JSON writes them.
    return dumps(value) if isinstance(value, (bool, int, float, Number)) else None
