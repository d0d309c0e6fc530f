"""
Reads the names of members in any case, as Azure Resource Manager's readers do.

A tree says how the members of a document are called; ``document_names`` has the trees. A document
is read once, at its root, before a PATCH is merged or a codec looks at it: from then on each member
has its documented name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from shared.arm.sections import raise_faults
from shared.errors import Fault, InvalidDocument
from shared.events.paths import fold_case
from shared.nearest import MISSPELT, nearest

_TWICE = 2
_MOST_REPEATED = 25  # faults of members in two spellings that are told: each repeats its path
_MOST_COMPARED = 1_000  # unknown names per document that are checked for misspelling


class Names:
    """
    The documented names of an object's members, or of those of each object in a list.

    *values* are members whose value is taken as it is, *objects* those with names of their own.
    """

    def __init__(self, *values: str, **objects: Shape) -> None:
        self.below: dict[str, Shape] = {**dict.fromkeys(values), **objects}
        self._by_letters = {fold_case(name): name for name in self.below}

    def also(self, *values: str, **objects: Shape) -> Names:
        """Return these names and others."""
        return Names(*values, **{**self.below, **objects})

    def documented(self, name: str) -> str | None:
        """Return the documented form of a name; ``None``: it is unknown."""
        return self._by_letters.get(fold_case(name.strip()))


class FreeNames(NamedTuple):
    """Names that people choose and that keep their case, as those of tags."""

    of: Shape = None  # the names in each value


Shape = Names | FreeNames | None  # ``None``: whatever stands there is taken as it is


def read_names(document: object, names: Names) -> object:
    """
    Return *document* with the documented names of its members.

    Unknown members stay as they are.

    Raises:
        InvalidDocument: a member is there in two spellings, or an unknown one is misspelt; it has
            all such faults.
    """
    found, repeated = in_documented_case(document, names)
    raise_faults([*repeated, *_misspelt(found, names)])
    return found


def in_documented_case(document: Any, names: Shape) -> tuple[Any, list[Fault]]:
    """Return *document* with documented names, and the faults of members in two spellings."""
    repeated: list[Fault] = []
    return _renamed(document, names, "", repeated), repeated


def _renamed(value: Any, shape: Shape, path: str, repeated: list[Fault]) -> Any:
    if shape is None:
        return value
    if isinstance(value, list):
        inner = _of_items(shape)
        return [
            _renamed(each, inner, f"{path}[{number}]", repeated)
            if isinstance(each, Mapping)
            else each
            for number, each in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    written: dict[str, list[str]] = {}  # by documented name
    for name, each in value.items():
        own, inner = _known(name, shape)
        target = f"{path}.{own}" if path else own
        spellings = written.setdefault(own, [])
        spellings.append(name)
        if len(spellings) == _TWICE and len(repeated) < _MOST_REPEATED:
            message = f"{target} is there twice, as '{spellings[0]}' and as '{name}'."
            repeated.append(Fault(code=InvalidDocument.code, message=message, target=target))
        found[own] = _renamed(each, inner, target, repeated)
    return found


def _known(name: str, shape: Names | FreeNames) -> tuple[str, Shape]:
    """Return the name that a member has from now on, and what is in it."""
    if isinstance(shape, FreeNames):
        return name, shape.of
    own = shape.documented(name)
    return (name, None) if own is None else (own, shape.below[own])


def _of_items(shape: Names | FreeNames) -> Shape:
    return shape.of if isinstance(shape, FreeNames) else shape


def _misspelt(document: object, names: Names) -> list[Fault]:
    """Return the faults of unknown members in a document with documented names."""
    faults = []
    for target, name, known in islice(unknown_names(document, names), _MOST_COMPARED):
        if near := nearest(name, known, MISSPELT):
            message = f"{target} is unknown; did you mean {near}?"
            faults.append(Fault(code=InvalidDocument.code, message=message, target=target))
    return faults


class UnknownName(NamedTuple):
    """A name that a tree does not have."""

    target: str  # the path of the member
    name: str
    known: Collection[str]  # the names that its object may have


def unknown_names(value: Any, shape: Shape, path: str = "") -> Iterator[UnknownName]:
    """Yield the unknown names in a document with documented names."""
    if shape is None:
        return
    if isinstance(value, list):
        for number, each in enumerate(value):
            if isinstance(each, Mapping):
                yield from unknown_names(each, _of_items(shape), f"{path}[{number}]")
    elif isinstance(value, Mapping):
        for name, each in value.items():
            target = f"{path}.{name}" if path else name
            if isinstance(shape, Names) and name not in shape.below:
                yield UnknownName(target, name, shape.below)
            else:
                yield from unknown_names(each, _known(name, shape)[1], target)
