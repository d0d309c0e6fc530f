"""Reads ``inputSchemaMapping``, which maps custom events to Event Grid's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.arm.sections import Section
from shared.events.topic import FieldMapping

_WITHOUT_DEFAULT = ("id", "topic", "eventTime")
_WITH_DEFAULT = ("eventType", "subject", "dataVersion")


def parse_mapping(properties: Section, *, is_custom: bool) -> dict[str, Any] | None:
    """Read the mapping, which the custom schema requires and the other schemas forbid."""
    name = "inputSchemaMapping"
    if not is_custom:
        if properties.has(name):
            properties.refuse(name, f"{name} is for the input schema CustomEventSchema only.")
        return None
    if not properties.has(name):
        properties.refuse(name, f"The input schema CustomEventSchema requires {name}.")
        return None
    section = properties.section(name)
    kind = section.required_choice("inputSchemaMappingType", ("Json",))
    fields = section.section("properties")
    stored = {
        each: _parse_field(fields.section(each), has_default=each in _WITH_DEFAULT)
        for each in (*_WITHOUT_DEFAULT, *_WITH_DEFAULT)
        if fields.has(each)
    }
    return {"inputSchemaMappingType": kind, "properties": stored}


def to_mapping(stored: Mapping[str, Any] | None) -> dict[str, FieldMapping]:
    """Turn a stored mapping into the value that publishing uses."""
    fields = stored["properties"] if stored else {}
    return {
        name: FieldMapping(field["sourceField"], field.get("defaultValue"))
        for name, field in fields.items()
    }


def _parse_field(section: Section, *, has_default: bool) -> dict[str, str | None]:
    stored = {"sourceField": section.text("sourceField") or None}
    if has_default:
        stored["defaultValue"] = section.text("defaultValue")
    elif section.has("defaultValue"):
        section.refuse("defaultValue", f"{section.path} can't have a default value.")
    return stored
