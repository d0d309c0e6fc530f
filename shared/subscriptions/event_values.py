"""Looks up the values of an event for filters, and validates the keys that lead to them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shared.clip import clip
from shared.events.event import Event
from shared.events.literals import to_python_number
from shared.events.paths import PathLookup, fold_case
from shared.events.topic import InputSchema

_MAX_EXACT = 2**53  # every integer up to here is a double
_SHOWN = 256  # characters of a key that is at fault
_MAX_DOUBLE = 2**1023  # some larger integers overflow a double
_ENVELOPE_KEYS = ("id", "topic", "subject", "eventtype", "dataversion")
# Publishing refuses events with other members in these schemas.
_KNOWN_KEYS = {InputSchema.EVENT_GRID: _ENVELOPE_KEYS, InputSchema.CUSTOM: _ENVELOPE_KEYS}


class EventValues:
    """
    The values of one event: case-folded strings, and arrays as tuples.

    A path begins at the event: ``data`` and the names within it, or another member. Each value is
    looked up once, for any number of filters.
    """

    __slots__ = ("_lookup", "_values", "event_type", "folded_subject", "subject")

    def __init__(self, event: Event) -> None:
        self._lookup = PathLookup(event.members)
        self._values: dict[tuple[str, ...], Any] = {}
        self.subject = event.subject
        self.folded_subject = fold_case(event.subject)
        self.event_type = fold_case(event.event_type)

    def value(self, path: tuple[str, ...]) -> Any:
        """Return the value at *path*, whatever the case of its names; ``MISSING`` if none."""
        try:
            return self._values[path]
        except KeyError:
            found = self._values[path] = _comparable_value(self._lookup.find(path))
            return found


def key_fault(key: str, schema: InputSchema, also: Collection[str] = ()) -> str | None:
    """
    Return the fault of *key*; ``None`` if an event of *schema* can have it.

    A key is a member of the event, in any case, or a path into ``data``. *also* are members
    accepted beside the schema's own. CloudEvents can have any member, as an extension.

    Source: Event Grid "Understand event filtering" (2022-09-09), and of headers "Set custom headers
    on delivered events" (2023-02-21), whose keys are the same.
    """
    first, *names = key.lower().split(".")
    known = _KNOWN_KEYS.get(schema)
    if first == "data" and all(names):
        return None
    if first and not names and (known is None or first in known or first in also):
        return None
    members = ", ".join(known) if known else "an attribute of the event"
    return (
        f"The key '{clip(key, _SHOWN)}' is not a key of an event; use {members}, or 'data.NAME' "
        "for a value in data."
    )


def _comparable_value(value: Any) -> Any:
    return tuple(map(_comparable, value)) if isinstance(value, list) else _comparable(value)


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return fold_case(value)
    if isinstance(value, int) and abs(value) > _MAX_EXACT:
        # The operands of filters are doubles.
        return float(value) if abs(value) < _MAX_DOUBLE else value
    return to_python_number(value)
