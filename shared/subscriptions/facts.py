"""What filters ask of one event, looked up and folded once however many filters ask."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from shared.events.event import Event
from shared.events.literals import plain


class Absence(Enum):
    """The value of a key that an event doesn't have."""

    MISSING = "missing"


MISSING: Final = Absence.MISSING
_LIKE_ASCII = frozenset("\u0131\u017f")  # dotless i and long s: their capitals are
_SMALL_ASCII = str.maketrans(ascii_uppercase, ascii_lowercase)
_EXACT = 2**53  # up to here every whole number is a double
_TOO_LARGE = 2**1023  # and from here on some are none


class Facts:
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
        self.folded_subject = fold(event.subject)
        self.event_type = fold(event.event_type)

    def value(self, path: tuple[str, ...]) -> Any:
        """Return the value that *path* leads to, its first key folded; ``MISSING`` if none."""
        try:
            return self._values[path]
        except KeyError:
            found = self._values[path] = _normal(self._find(path))
            return found

    def _find(self, path: tuple[str, ...]) -> Any:
        if self._members is None:
            self._members = {fold(name): value for name, value in self._envelope.items()}
        value: Any = self._members
        for name in path:
            if not isinstance(value, Mapping) or name not in value:
                return MISSING
            value = value[name]
        return value


def fold(text: str) -> str:
    """
    Return *text* as it is compared where case doesn't count: each character by itself.

    As .NET's OrdinalIgnoreCase does: no character becomes two (``ß`` is not ``SS``), and none that
    isn't ASCII becomes ASCII (the dotless i, the long s).
    """
    if text.isascii():
        return text.lower()
    capitals = text.upper()
    if len(capitals) != len(text) or not _LIKE_ASCII.isdisjoint(text):
        capitals = "".join(map(_capital, text))
    return capitals.translate(_SMALL_ASCII)


def _capital(character: str) -> str:
    if character in _LIKE_ASCII:
        return character
    forms = (character.upper(), character.title(), character)
    return next(form for form in forms if len(form) == 1)


def _normal(value: Any) -> Any:
    return tuple(map(_comparable, value)) if isinstance(value, list) else _comparable(value)


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return fold(value)
    if isinstance(value, int) and abs(value) > _EXACT:
        # Filters hold doubles: like is compared with like.
        return float(value) if abs(value) < _TOO_LARGE else value
    return plain(value)
