"""Checks that what a template declares has the form that it must have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.configuration.source import Place


class TemplateFault(Exception):
    """A value of a template can't be evaluated; the text has file, line and path."""


def required(definition: Any, name: str, place: Place) -> Any:
    """
    Return a member that a part of a template must have.

    Raises:
        TemplateFault: it has not.
    """
    if not isinstance(definition, Mapping):
        raise TemplateFault(place.fault("this must be an object"))
    if name not in definition:
        raise TemplateFault(place.fault(f"{name} is missing"))
    return definition[name]


def object_at(value: Any, place: Place) -> Mapping[str, Any]:
    """
    Return a part of a template that must be an object; a missing one is empty.

    Raises:
        TemplateFault: it is none.
    """
    if not isinstance(value, Mapping | None):
        raise TemplateFault(place.fault("this must be an object"))
    return value or {}


def check_form(template: Mapping[str, Any], place: Place) -> None:
    """
    Return if what a template declares has the form that it must have.

    Raises:
        TemplateFault: a part of it has not.
    """
    object_at(template.get("variables"), place.below("variables"))
    for member in ("parameters", "outputs"):
        _check_objects(template.get(member), place.below(member))
    functions, at = template.get("functions") or [], place.below("functions")
    if not isinstance(functions, list):
        raise TemplateFault(at.fault("this must be an array"))
    for index, each in enumerate(functions):
        own = at.below(index)
        if not isinstance(required(each, "namespace", own), str):
            raise TemplateFault(own.below("namespace").fault("this must be text"))
        _check_objects(required(each, "members", own), own.below("members"))


def _check_objects(value: Any, place: Place) -> None:
    for name, each in object_at(value, place).items():
        object_at(each, place.below(name))
