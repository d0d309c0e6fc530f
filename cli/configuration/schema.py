"""Checks a configuration file against the JSON schema that editors use as well."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator, TypeChecker, ValidationError, validators

from cli.configuration.source import MAX_FAULTS, FileFaults, Place, SourceFile
from shared.arm.not_included import DESTINATIONS
from shared.arm.sections import FLAGS, WHOLE
from shared.nearest import nearest

SCHEMA = Path(__file__).parents[1] / "data" / "pushgrid.schema.json"
_EXCLUDED = {kind.casefold(): feature for kind, feature in DESTINATIONS.items()}
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
    return _Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def _is_flag(_: TypeChecker, value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and value.lower() in FLAGS)


def _is_whole(_: TypeChecker, value: Any) -> bool:
    is_text = isinstance(value, str) and bool(WHOLE.fullmatch(value))
    return is_text or Draft7Validator.TYPE_CHECKER.is_type(value, "integer")


def _is_none(_: TypeChecker, value: Any) -> bool:
    return value is None or value == ""


def _one_of(
    validator: Any, allowed: list[Any], found: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """Check a value of a list, whose texts have any case; an empty one is null."""
    del validator, schema
    texts = {each.casefold() for each in allowed if isinstance(each, str)}
    is_one = found.casefold() in texts if isinstance(found, str) and found else False
    if not is_one and not (found in (None, "") and None in allowed):
        yield ValidationError("")


# What a deployment reads from a text: see `Section` of shared/arm/sections.py.
_Validator: type[Draft7Validator] = validators.extend(  # type: ignore[no-untyped-call]
    Draft7Validator,
    {"enum": _one_of},
    type_checker=Draft7Validator.TYPE_CHECKER.redefine_many(
        {"boolean": _is_flag, "integer": _is_whole, "null": _is_none}
    ),
)


def _faults(place: Place, error: ValidationError) -> Iterator[tuple[Place, str]]:
    schema: Any = error.schema
    wanted: Any = error.validator_value
    found: Any = error.instance
    if "propertyNames" in error.absolute_schema_path:
        yield place.below(found), f"the name must be {schema['description']}"
    elif error.validator == "additionalProperties":
        known = list(schema["properties"])
        for name in found:
            if name not in known:
                near = nearest(name, known)
                suggestion = f"; did you mean {near}?" if near else ""
                yield place.below(name), f"there is no such member{suggestion}"
    elif error.validator == "required":
        known = schema.get("properties", {})
        misspelt = {nearest(name, wanted) for name in found if name not in known}
        for name in wanted:
            if name not in found and name not in misspelt:
                yield place, f"{name} is missing"
    else:
        yield place, _fault(str(error.validator), schema, found)


def _fault(rule: str, schema: Mapping[str, Any], found: Any) -> str:
    """Return what is wrong with a value; it is quoted only where it can't be a secret."""
    match rule:
        case "type":
            kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
            return f"this must be {' or '.join(_TYPES[each] for each in kinds if each != 'null')}"
        case "enum":
            known = ", ".join(map(str, filter(None, schema["enum"])))
            excluded = _EXCLUDED.get(found.casefold()) if isinstance(found, str) else None
            instead = f". {excluded.sentence}" if excluded else ""
            return f"{json.dumps(found)} is none of: {known}{instead}"
        case "minimum" | "maximum":
            return f"this must be from {schema['minimum']} to {schema['maximum']}"
        case "minItems":
            return "this must not be empty"
    return f"this must be {schema['description'].removesuffix('.')}"  # of a pattern
