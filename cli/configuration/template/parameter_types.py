"""
Checks values against the types that a template declares, as ARM does before it deploys anything.

Source: "Parameters in ARM templates", "Definitions in ARM templates" (2025).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from operator import gt, lt
from typing import Any

from cli.configuration.source import BeyondLimits, Place, size_of
from cli.configuration.template.texts import units
from cli.configuration.template.values import identity, kind_of, lookup, named

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
Definitions = Mapping[str, Any]  # the types of a template, by name


def value_of_text(text: str, definition: Definition, definitions: Definitions) -> Any:
    """
    Return the value that a text of the command line stands for, as the type says.

    Raises:
        ValueError: it is none; the message says so.
    """
    kind = str(_resolved(definition, definitions).get("type") or "").lower()
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


def faults_of_value(
    value: Any, definition: Definition, definitions: Definitions, place: Place
) -> Iterator[str]:
    """Yield what is wrong with a value, each with its *place*; no value is quoted."""
    known = _resolved(definition, definitions)
    if value is None and known.get("nullable"):
        return
    wanted = _KINDS.get(str(known.get("type")).lower())
    if wanted and kind_of(value) != wanted:
        yield place.fault(f"this must be {named(wanted)}, not {named(kind_of(value))}")
        return
    yield from (place.fault(each) for each in _of_bounds(value, known))
    if isinstance(value, list):
        yield from _of_items(value, known, definitions, place)
    elif isinstance(value, Mapping):
        yield from _of_members(value, known, definitions, place)


def _resolved(definition: Definition, definitions: Definitions) -> Definition:
    """Return a definition with those that it refers to; its own members win."""
    found: dict[str, Any] = dict(definition)
    for _ in range(_MAX_REFERENCES):
        reference = found.pop("$ref", None)
        if reference is None:
            break
        target = definitions.get(str(reference).rpartition("/")[2])
        found = {**(target if isinstance(target, Mapping) else {}), **found}
    return found


def _of_bounds(value: Any, known: Definition) -> Iterator[str]:
    allowed = known.get("allowedValues")
    if isinstance(allowed, list) and allowed:
        of_each = value if isinstance(value, list) and identity(value) not in allowed else [value]
        choices = set(map(identity, allowed))
        if (
            any(identity(each) not in choices for each in of_each)
            and identity(value) not in choices
        ):
            yield f"the value is none of: {json.dumps(allowed)}"
    size = units(value) if isinstance(value, str) else value
    size = len(size) if isinstance(size, list | Mapping) else size
    for bound, is_beyond in _BOUNDS.items():
        limit = known.get(bound)
        if type(limit) is int and type(size) is int and is_beyond(size, limit):
            yield f"{bound} is {limit}"


def _of_items(
    values: list[Any], known: Definition, definitions: Definitions, place: Place
) -> Iterator[str]:
    first, rest = known.get("prefixItems") or [], known.get("items")
    if rest is False and len(values) > len(first):
        yield place.fault(f"this must have {len(first)} elements, not {len(values)}")
    for index, each in enumerate(values):
        definition = first[index] if index < len(first) else rest
        if isinstance(definition, Mapping):
            yield from faults_of_value(each, definition, definitions, place.below(index))


def _of_members(
    value: Mapping[str, Any], known: Definition, definitions: Definitions, place: Place
) -> Iterator[str]:
    if discriminator := known.get("discriminator"):
        name, mapping = discriminator["propertyName"], discriminator["mapping"]
        chosen = _member(value, name)
        if not isinstance(chosen, str) or chosen not in mapping:
            yield place.below(name).fault(f"this must be one of: {', '.join(mapping)}")
            return
        known = _resolved(mapping[chosen], definitions)
    members = known.get("properties") or {}
    for name, definition in members.items():
        own, inner = place.below(name), _member(value, name)
        if inner is not None:
            yield from faults_of_value(inner, definition, definitions, own)
        elif not _resolved(definition, definitions).get("nullable"):
            yield own.fault("this is missing")
    folded = {each.casefold() for each in members}
    others = {name: each for name, each in value.items() if name.casefold() not in folded}
    yield from _of_others(others, known, definitions, place)


def _of_others(
    others: Mapping[str, Any], known: Definition, definitions: Definitions, place: Place
) -> Iterator[str]:
    """Yield what is wrong with the members that a type does not name."""
    definition = known.get("additionalProperties")
    for name, each in others.items():
        if definition is False:
            yield place.below(name).fault("there is no such member")
        elif isinstance(definition, Mapping):
            yield from faults_of_value(each, definition, definitions, place.below(name))


def _member(value: Mapping[str, Any], name: str) -> Any:
    try:
        return lookup(value, name)
    except ValueError:
        return None
