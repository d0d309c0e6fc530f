"""Rules about names of resources and their tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.shapes import of_resource
from tools.bicepcheck.evaluation.values import (
    Computed,
    Deployed,
    Input,
    leaves,
    parts_of,
)
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.rules import azure
from tools.bicepcheck.rules.names_in_code import App

_FUNCTION_LENGTHS = {"uniqueString": 13, "guid": 36, "newGuid": 36}
_DEFAULT = (7, 7, r"default")
_LOWER = r"[a-z0-9](-?[a-z0-9])*"
_HYPHENATED = r"[A-Za-z0-9](-?[A-Za-z0-9])*"
_ALERT = r"[^*#&+:<>?@%{}\\/|]+"
_DOTTED = r"[A-Za-z0-9][\w.-]*\w"

NAMES = {
    azure.STORAGE: (3, 24, r"[a-z0-9]+"),
    azure.QUEUE: (3, 63, _LOWER),
    azure.CONTAINER: (3, 63, _LOWER),
    azure.TABLE: (3, 63, r"[A-Za-z][A-Za-z0-9]*"),
    **dict.fromkeys((azure.LIFECYCLE, azure.BLOBS, azure.QUEUES, azure.TABLES), _DEFAULT),
    azure.VAULT: (3, 24, r"[A-Za-z](-?[A-Za-z0-9])*"),
    azure.SECRET: (1, 127, r"[A-Za-z0-9-]+"),
    azure.SITE: (2, 60, _HYPHENATED),
    azure.PLAN: (1, 60, r"[A-Za-z0-9-]+"),
    azure.IDENTITY: (3, 128, r"[A-Za-z0-9][A-Za-z0-9_-]*"),
    azure.WORKSPACE: (4, 63, _HYPHENATED),
    azure.INSIGHTS: (1, 260, r"[^%&\\?/]+[^%&\\?/.]"),
    azure.ACTION_GROUP: (1, 260, r"[^:<>+/&%\\?|]+"),
    azure.METRIC_ALERT: (1, 260, _ALERT),
    azure.LOG_ALERT: (1, 260, _ALERT),
    azure.NETWORK: (2, 64, _DOTTED),
    azure.ENDPOINT: (2, 64, _DOTTED),
    "Microsoft.Resources/resourceGroups": (1, 90, r"[\w().-]*[\w()-]"),
    azure.BUDGET: (1, 63, r"[A-Za-z0-9_-]+"),
}
"""Minimum length, maximum length and characters of names, from Azure's naming rules."""


def check(deployment: EvaluatedFolder, app: App) -> Iterator[Problem]:
    """Check names and tags of the resources that the deployment creates."""
    for one in deployment.deployed:
        yield from _name(one)
        yield from _tags(one, app)


def _name(one: Deployed) -> Iterator[Problem]:
    if _depends_on_deployment(one.name):
        message = (
            f"{one.symbol}: the name contains the deployment's, so each deployment creates another"
        )
        yield one.problem("changes-each-time", message, "name")
    if one.type not in NAMES:
        return
    shortest, longest, characters = NAMES[one.type]
    parts = parts_of(one.name)
    text = "".join(part if isinstance(part, str) else "a" * _max_length(part) for part in parts)
    complete = not any(map(_has_no_length, parts))
    if not re.fullmatch(characters, text):
        message = f"{one.symbol}: '{text}' has characters that a {one.type} must not have"
        yield one.problem("name", message, "name")
    elif len(text) > longest or (complete and len(text) < shortest):
        message = f"{one.symbol}: the name has {len(text)} characters, not {shortest} to {longest}"
        yield one.problem("name", message, "name")


def _has_no_length(part: Any) -> bool:
    return not isinstance(part, str) and getattr(part, "function", "") not in _FUNCTION_LENGTHS


def _max_length(part: Any) -> int:
    """Return how many characters an unknown part may have; 1 if nothing limits it."""
    length = _FUNCTION_LENGTHS.get(part.function) if isinstance(part, Computed) else None
    return length or (part.max_length if isinstance(part, Input) else None) or 1


def _depends_on_deployment(value: Any) -> bool:
    """Return whether a value contains the deployment's own name, which changes each time."""
    if isinstance(value, Computed) and value.function != "deployment.name":
        return any(map(_depends_on_deployment, value.args))
    return isinstance(value, Computed) or (
        len(parts_of(value)) > 1 and any(map(_depends_on_deployment, parts_of(value)))
    )


def _tags(one: Deployed, app: App) -> Iterator[Problem]:
    shape, tags = of_resource(one.type), one.at("tags")
    if not shape or "tags" not in (shape.members or {}) or one.type == azure.SECRET:
        return
    if isinstance(tags, Computed | Input):
        return
    if not isinstance(tags, dict) or not any(
        isinstance(leaf, Input) for leaf in leaves(tags.get("azd-env-name"))
    ):
        message = f"{one.symbol} needs the tag 'azd-env-name', by which azd finds its resources"
    elif one.type == azure.SITE and tags.get("azd-service-name") != app.service:
        message = f"the tag 'azd-service-name' must be '{app.service}', as in azure.yaml"
    elif one.type != azure.SITE and "azd-service-name" in tags:
        message = "only the app may have the tag 'azd-service-name'; delete it"
    else:
        return
    yield one.problem("tags", message, "tags")
