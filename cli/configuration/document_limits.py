"""Bounds the values of a file: how large they are, and how deeply nested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_CHARACTERS = 4 * 1024 * 1024  # of a file: the size of a template in Azure
MAX_SIZE = 2 * MAX_CHARACTERS  # of a value; aliases, variables and loops repeat what a file has
MAX_DEPTH = 100
MAX_FAULTS = 100  # that are reported
_OF_EACH = 16  # besides its characters


class BeyondLimits(ValueError):
    """A value is too large, or nested too deeply."""


def check_size(size: int) -> None:
    """
    Return if a value may have so many characters.

    Raises:
        BeyondLimits: it may not.
    """
    if size > MAX_SIZE:
        raise BeyondLimits(f"the value is larger than {MAX_SIZE:,} characters")


def size_of(value: Any) -> int:
    """
    Return about how many characters it takes to write a value, with what it has several times.

    Raises:
        BeyondLimits: there are too many, or they are nested too deeply.
    """
    size, rest = 0, [(value, 1)]
    while rest:
        each, depth = rest.pop()
        size += _OF_EACH
        inner: Any = ()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, Mapping):
            size += names_size(each)
            inner = each.values()
        elif isinstance(each, list):
            inner = each
        check_size(size + _OF_EACH * len(inner))
        if inner and depth == MAX_DEPTH:
            raise BeyondLimits(f"the value is nested deeper than {MAX_DEPTH} levels")
        rest += [(one, depth + 1) for one in inner]
    return size


def names_size(names: Any) -> int:
    """Return how many characters *names* have, as `size_of` counts them."""
    return sum(map(len, names)) + _OF_EACH * len(names)
