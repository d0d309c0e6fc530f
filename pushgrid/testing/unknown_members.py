"""Finds the members of a document that the deployment has ignored: a test would prove nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

# A namespace's event subscription has tags, and a secret a value: answers have neither.
_NEVER_ANSWERED = frozenset({"endpointUrl", "tags", "value"})


def refuse_unknown_members(kind: str, given: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """
    Compare the properties that a test has given with those of the deployment's answer.

    Raises:
        TypeError: the answer lacks one.
    """
    if unknown := sorted(_unknown(given, kept, "")):
        raise TypeError(f"{kind} has no property {', '.join(unknown)}")


def _nearest(name: str, names: Iterable[str]) -> str:
    """Return the hint at a property that is spelt like *name*."""
    by_letters = {each.lower(): each for each in names}
    near = get_close_matches(name.replace("_", "").lower(), by_letters, 1)
    return f" (did you mean {by_letters[near[0]]}?)" if near else ""


def _unknown(given: Any, kept: Any, path: str) -> Iterator[str]:
    if isinstance(given, Mapping) and isinstance(kept, Mapping):
        for name, value in given.items():
            inner = f"{path}.{name}" if path else name
            if name in kept:
                yield from _unknown(value, kept[name], inner)
            elif value is not None and name not in _NEVER_ANSWERED:
                yield f"{inner}{_nearest(name, kept)}"
    elif isinstance(given, list | tuple) and isinstance(kept, list):
        for index, (one, other) in enumerate(zip(given, kept, strict=False)):
            yield from _unknown(one, other, f"{path}[{index}]")
