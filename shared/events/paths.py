"""Looks up values in an event by their paths, in which case does not count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

MISSING: Final = object()  # the value of a path that an event doesn't have
_LIKE_ASCII = frozenset("\u0131\u017f")  # dotless i, long s: their upper case is ASCII
_SMALL_ASCII = str.maketrans(ascii_uppercase, ascii_lowercase)


class PathLookup:
    """
    The values in one JSON object, by the names that lead to them.

    An exact name wins; otherwise the first member, in the order of the object, whose name differs
    only by case. No path leads into an array. The names of an object are folded once, for all
    paths, when an exact one is missing first.

    Source: contract §5.7. That the first member wins is a guess.
    """

    __slots__ = ("_folded", "root")

    def __init__(self, root: Mapping[str, Any]) -> None:
        """Take the object; `TypeError`: it is none."""
        if not isinstance(root, dict):
            raise TypeError(f"{type(root).__name__} is no JSON object")
        self.root = root
        # By the object's identity: it lives as long as the root.
        self._folded: dict[int, dict[str, Any]] = {}

    def find(self, path: Iterable[str]) -> Any:
        """Return the value at *path*; ``MISSING`` if there is none."""
        value: Any = self.root
        for name in path:
            if not isinstance(value, dict):
                return MISSING
            found = value.get(name, MISSING)
            if found is MISSING:
                found = self._by_folded_name(value).get(fold_case(name), MISSING)
            value = found
        return value

    def _by_folded_name(self, members: Mapping[str, Any]) -> dict[str, Any]:
        folded = self._folded.get(id(members))
        if folded is None:
            folded = self._folded[id(members)] = {}
            for name, value in members.items():
                folded.setdefault(fold_case(name), value)
        return folded


def fold_case(text: str) -> str:
    """
    Return *text* in the form for case-insensitive comparison, character by character.

    Like .NET's OrdinalIgnoreCase: no character becomes two (``ß`` is not ``SS``), and no character
    outside ASCII becomes ASCII (dotless i, long s).
    """
    if text.isascii():
        return text.lower()
    capitals = text.upper()
    if len(capitals) != len(text) or not _LIKE_ASCII.isdisjoint(text):
        capitals = "".join(map(_upper, text))
    return capitals.translate(_SMALL_ASCII)


@lru_cache(maxsize=1024)  # a long text has few different characters
def _upper(character: str) -> str:
    if character in _LIKE_ASCII:
        return character
    forms = (character.upper(), character.title(), character)
    return next(form for form in forms if len(form) == 1)
