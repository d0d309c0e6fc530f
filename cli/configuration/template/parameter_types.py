"""
Checks values against the types that a template declares, as ARM does before it deploys anything.

Source: "Parameters in ARM templates", "Definitions in ARM templates" (2025).
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from operator import gt, lt
from typing import Any

from cli.configuration.source import BeyondLimits, Place, size_of
from cli.configuration.template.texts import units
from cli.configuration.template.values import identity, kind_of, named

_KINDS = {
    "string": "text",
    "securestring": "text",
    "int": "int",
    "bool": "bool",
    "array": "array",
    "object": "object",
    "secureobject": "object",
}
_BOUNDS: Mapping[str, Callable[[int, int], bool]] = {
    "minLength": lt,
    "minValue": lt,
    "maxLength": gt,
    "maxValue": gt,
}
_MAX_REFERENCES = 100  # from one definition to the next

Definition = Mapping[str, Any]


class Types:
    """
    The types of a template.

    *definitions* are those that types refer to by name; *step* is called for each value.
    """

    def __init__(self, definitions: Mapping[str, Any], step: Callable[[], None]) -> None:
        self._definitions = definitions
        self._step = step

    def value_of_text(self, text: str, definition: Definition) -> Any:
        """
        Return the value that a text of the command line stands for, as the type says.

        Raises:
            ValueError: it is none; the message says so.
        """
        kind = str(self._resolved(definition).get("type") or "").lower()
        if _KINDS.get(kind) == "text":
            return text
        try:
            value = json.loads(text)
            size_of(value)
        except BeyondLimits as beyond:
            raise ValueError(str(beyond)) from None
        except (ValueError, RecursionError):
            wanted = named(_KINDS[kind]) if kind in _KINDS else "JSON"
            raise ValueError(f"the text given is not {wanted}") from None
        return value

    def faults(self, value: Any, definition: Definition, place: Place) -> Iterator[str]:
        """Yield what is wrong with a value, each with its *place*; no value is quoted."""
        self._step()
        known = self._resolved(definition)
        if value is None and known.get("nullable"):
            return
        wanted = _KINDS.get(str(known.get("type")).lower())
        if wanted and kind_of(value) != wanted:
            yield place.fault(f"this must be {named(wanted)}, not {named(kind_of(value))}")
            return
        yield from (place.fault(each) for each in _of_bounds(value, known))
        if isinstance(value, list):
            yield from self._of_items(value, known, place)
        elif isinstance(value, Mapping):
            yield from self._of_members(value, known, place)

    def _resolved(self, definition: Definition) -> Definition:
        """Return a definition with those that it refers to; its own members win."""
        chain: list[Any] = [definition]
        while (reference := chain[-1].get("$ref")) and len(chain) < _MAX_REFERENCES:
            target = self._definitions.get(str(reference).rpartition("/")[2])
            chain.append(target if isinstance(target, Mapping) else {})
        return ChainMap(*chain) if chain[1:] else definition

    def _of_items(self, values: list[Any], known: Definition, place: Place) -> Iterator[str]:
        first, rest = known.get("prefixItems") or [], known.get("items")
        if rest is False and len(values) > len(first):
            yield place.fault(f"this must have {len(first)} elements, not {len(values)}")
        for index, each in enumerate(values):
            definition = first[index] if index < len(first) else rest
            if isinstance(definition, Mapping):
                yield from self.faults(each, definition, place.below(index))

    def _of_members(
        self, value: Mapping[str, Any], known: Definition, place: Place
    ) -> Iterator[str]:
        given = {name.casefold(): each for name, each in value.items()}
        if discriminator := known.get("discriminator"):
            name, mapping = discriminator["propertyName"], discriminator["mapping"]
            chosen = given.get(name.casefold())
            if not isinstance(chosen, str) or chosen not in mapping:
                yield place.below(name).fault(f"this must be one of: {', '.join(mapping)}")
                return
            known = self._resolved(mapping[chosen])
        members = known.get("properties") or {}
        for name, definition in members.items():
            own, inner = place.below(name), given.get(name.casefold())
            if inner is None and not self._resolved(definition).get("nullable"):
                yield own.fault("this is missing")
            elif inner is not None:
                yield from self.faults(inner, definition, own)
            self._step()
        rest, folded = known.get("additionalProperties"), {each.casefold() for each in members}
        others = {name: each for name, each in value.items() if name.casefold() not in folded}
        yield from self._of_others(others, rest, place)

    def _of_others(self, others: Mapping[str, Any], definition: Any, place: Place) -> Iterator[str]:
        """Yield what is wrong with the members that a type does not name."""
        for name, each in others.items():
            if definition is False:
                yield place.below(name).fault("there is no such member")
            elif isinstance(definition, Mapping):
                yield from self.faults(each, definition, place.below(name))


def _of_bounds(value: Any, known: Definition) -> Iterator[str]:
    allowed = known.get("allowedValues")
    if isinstance(allowed, list) and allowed:
        choices = set(map(identity, allowed))
        elements = map(identity, value) if isinstance(value, list) else ()
        is_part = isinstance(value, list) and choices.issuperset(elements)
        if identity(value) not in choices and not is_part:
            yield f"the value is none of: {json.dumps(allowed)}"
    size = units(value) if isinstance(value, str) else value
    size = len(size) if isinstance(size, list | Mapping) else size
    for bound, is_beyond in _BOUNDS.items():
        limit = known.get(bound)
        if type(limit) is int and type(size) is int and is_beyond(size, limit):
            yield f"{bound} is {limit}"
