"""Checks a configuration file against the JSON schema that editors use as well."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator, ValidationError

from cli.configuration.source import MAX_FAULTS, FileFaults, Place, SourceFile
from shared.arm.not_included import DESTINATIONS

SCHEMA = Path(__file__).parents[1] / "data" / "pushgrid.schema.json"
_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "an object",
    "string": "text",
}


def check_schema(source: SourceFile) -> None:
    """
    Check the value of a file.

    Raises:
        FileFaults: all faults, of very many the first that are found, in the order of their lines.
    """
    faults = (
        (place.line, place.fault(message))
        for error in _validator().iter_errors(source.value)
        for place, message in _faults(Place(source, tuple(error.absolute_path)), error)
    )
    found = list(islice(faults, MAX_FAULTS))
    if found:
        raise FileFaults(*(text for _, text in sorted(found)))


@cache
def _validator() -> Draft7Validator:
    return Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def _faults(place: Place, error: ValidationError) -> Iterator[tuple[Place, str]]:
    rule, schema, wanted, found = _parts(error)
    if rule == "additionalProperties":
        known = list(schema["properties"])
        for name in found:
            if name not in known:
                yield place.below(name), f"there is no such member{_suggestion(name, known)}"
    elif rule == "required":
        known = schema.get("properties", {})
        misspelt = {_nearest(name, wanted) for name in found if name not in known}
        for name in wanted:
            if name not in found and name not in misspelt:
                yield place, f"{name} is missing"
    elif "propertyNames" in error.absolute_schema_path:
        yield place.below(found), f"the name must be {schema['description']}"
    else:
        yield place, _WORDS[rule](wanted, schema, found)


def _parts(error: ValidationError) -> tuple[str, Any, Any, Any]:
    """Return the rule that is broken, its schema and value, and the value that was found."""
    return str(error.validator), error.schema, error.validator_value, error.instance


def _suggestion(name: str, known: list[str]) -> str:
    near = _nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def _nearest(name: str, known: list[str]) -> str | None:
    return next(iter(get_close_matches(name, known, 1)), None)


def _type(wanted: Any, _: Mapping[str, Any], __: Any) -> str:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    return f"this must be {' or '.join(_TYPES[each] for each in kinds if each != 'null')}"


def _choice(wanted: Any, _: Mapping[str, Any], found: Any) -> str:
    excluded = DESTINATIONS.get(found) if isinstance(found, str) else None
    instead = f". {excluded.sentence}" if excluded else ""
    return f"{json.dumps(found)} is none of: {', '.join(map(str, filter(None, wanted)))}{instead}"


def _range(_: Any, schema: Mapping[str, Any], __: Any) -> str:
    return f"this must be from {schema['minimum']} to {schema['maximum']}"


def _pattern(_: Any, schema: Mapping[str, Any], __: Any) -> str:
    return f"this must be {schema['description'].removesuffix('.')}"


# A value is quoted only where it can't be a secret.
_WORDS: Mapping[str, Callable[[Any, Mapping[str, Any], Any], str]] = {
    "type": _type,
    "enum": _choice,
    "minimum": _range,
    "maximum": _range,
    "pattern": _pattern,
    "minItems": lambda *_: "this must not be empty",
}
