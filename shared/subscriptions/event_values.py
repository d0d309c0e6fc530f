"""What filters ask of one event, looked up and folded once however many filters ask."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from shared.events.event import Event
from shared.events.literals import to_python_number
from shared.events.topic import InputSchema


class Absence(Enum):
    """The value of a key that an event doesn't have."""

    MISSING = "missing"


MISSING: Final = Absence.MISSING
_LIKE_ASCII = frozenset("\u0131\u017f")  # dotless i and long s: their capitals are
_SMALL_ASCII = str.maketrans(ascii_uppercase, ascii_lowercase)
_EXACT = 2**53  # up to here every whole number is a double
_TOO_LARGE = 2**1023  # and from here on some are none
_OF_EVENTS = ("id", "topic", "subject", "eventtype", "dataversion")
# Events in these schemas are refused when they are published if they have others.
_KNOWN = {InputSchema.EVENT_GRID: _OF_EVENTS, InputSchema.CUSTOM: _OF_EVENTS}


class EventValues:
    """
    The values of one event, strings in folded case and arrays as tuples of such values.

    A path's first key names a member of the event, whatever its case; the others are names within
    ``data``. There is no way into the elements of an array.
    """

    __slots__ = ("_envelope", "_members", "_values", "event_type", "folded_subject", "subject")

    def __init__(self, event: Event) -> None:
        self._envelope = event.members
        self._members: Mapping[str, Any] | None = None  # by folded names, once they are asked for
        self._values: dict[tuple[str, ...], Any] = {}
        self.subject = event.subject
        self.folded_subject = fold_case(event.subject)
        self.event_type = fold_case(event.event_type)

    def value(self, path: tuple[str, ...]) -> Any:
        """Return the value that *path* leads to, its first key folded; ``MISSING`` if none."""
        try:
            return self._values[path]
        except KeyError:
            found = self._values[path] = _comparable_value(self._find(path))
            return found

    def _find(self, path: tuple[str, ...]) -> Any:
        if self._members is None:
            self._members = {fold_case(name): value for name, value in self._envelope.items()}
        value: Any = self._members
        for name in path:
            if not isinstance(value, Mapping) or name not in value:
                return MISSING
            value = value[name]
        return value


def key_fault(key: str, schema: InputSchema, also: Collection[str] = ()) -> str | None:
    """
    Say what is wrong with *key*, if no event of *schema* can have it.

    A key is a member of the event, whatever its case, or a path into ``data``; *also* are members
    that are understood beside the schema's own. CloudEvents may have any, as extensions.

    Source: Event Grid "Understand event filtering" (2022-09-09), and of headers "Set custom headers
    on delivered events" (2023-02-21), whose keys are the same.
    """
    first, *names = key.lower().split(".")
    known = _KNOWN.get(schema)
    if first == "data" and all(names):
        return None
    if first and not names and (known is None or first in known or first in also):
        return None
    others = f"{', '.join(known)} and " if known else "an attribute of the event or "
    return f"The key '{key[:256]}' is no key of an event: there are {others}data.…."


def fold_case(text: str) -> str:
    """
    Return *text* as it is compared where case doesn't count: each character by itself.

    As .NET's OrdinalIgnoreCase does: no character becomes two (``ß`` is not ``SS``), and none that
    isn't ASCII becomes ASCII (the dotless i, the long s).
    """
    if text.isascii():
        return text.lower()
    capitals = text.upper()
    if len(capitals) != len(text) or not _LIKE_ASCII.isdisjoint(text):
        capitals = "".join(map(_upper, text))
    return capitals.translate(_SMALL_ASCII)


def _upper(character: str) -> str:
    if character in _LIKE_ASCII:
        return character
    forms = (character.upper(), character.title(), character)
    return next(form for form in forms if len(form) == 1)


def _comparable_value(value: Any) -> Any:
    return tuple(map(_comparable, value)) if isinstance(value, list) else _comparable(value)


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return fold_case(value)
    if isinstance(value, int) and abs(value) > _EXACT:
        # Filters hold doubles: like is compared with like.
        return float(value) if abs(value) < _TOO_LARGE else value
    return to_python_number(value)
