"""Chooses the sets of parameters with which a deployment is evaluated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.deployment import Deployment
from tools.bicepcheck.evaluation.values import Input
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types.declared import Types

PARAMETERS_FILE = "main.parameters.json"
_VARIABLE = re.compile(r"\$\{(\w+)(?:=([^}]*))?\}")


def deployments(folder: Folder, types: Types) -> list[Deployment]:
    """
    Return the deployment with its default parameters, and with others.

    In the second, every optional parameter is set and every switch is turned, or as
    main.parameters.json has it. In the others, each number is at one of its limits, and each choice
    is taken once.
    """
    main = folder.main
    if main is None:
        return [Deployment(folder, {})]
    everything = _everything(main, types) | _parameters_file(folder, main, types)
    return [Deployment(folder, params) for params in ({}, everything, *_limits(main, types))]


def _optional(main: File, types: Types) -> Iterator[tuple[s.Param, Any, t.Type]]:
    """Yield the parameters of main.bicep with a literal default, the default and the type."""
    for one in main.all(s.Param):
        if isinstance(one.default, s.Literal):
            yield one, one.default.value, types.of_declaration(one, main)


def _limits(main: File, types: Types) -> Iterator[dict[str, Any]]:
    choices: dict[str, list[Any]] = {}
    for one, _, kind in _optional(main, types):
        if isinstance(kind, t.Int):
            values: list[Any] = [kind.minimum, kind.maximum]
        else:
            of = kind.of if isinstance(kind, t.Union) else ()
            values = [part.value for part in of if isinstance(part, t.Int | t.Str)]
        choices[one.name] = [value for value in values if value is not None]
    for at in range(max(map(len, choices.values()), default=0)):
        yield {name: values[at] for name, values in choices.items() if at < len(values)}


def _everything(main: File, types: Types) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one, default, kind in _optional(main, types):
        if default == "":
            found[one.name] = Input(one.name, one.has("secure"))
        elif isinstance(default, bool):
            found[one.name] = not default
        elif default == 0 and t.mismatch(t.Int(value=1), kind) is None:
            found[one.name] = 1
    return found


def _parameters_file(folder: Folder, main: File, types: Types) -> dict[str, Any]:
    """Return the values that main.parameters.json sets where no variable does."""
    found: dict[str, Any] = {}
    expected = types.params(main).fields
    for name, entry in (parameters(folder) or {}).items():
        value = entry.get("value") if isinstance(entry, dict) else None
        if isinstance(value, str) and (names := variables(value)):
            value = names[0][1]
        if value in (None, "", "0", "false", 0) or name not in expected:
            continue
        kind = typed(str(value), expected[name].type)
        found[name] = kind.value if isinstance(kind, t.Int | t.Bool | t.Str) else value
    return found


def typed(text: str, expected: t.Type) -> t.Type:
    """Return the type of a text as azd passes it: as a number or a bool where one is expected."""
    kinds = {type(one) for one in t.parts(expected)}
    if t.Int in kinds and re.fullmatch(r"-?\d+", text):
        return t.Int(value=int(text))
    if t.Bool in kinds and text.lower() in {"true", "false"}:
        return t.Bool(value=text.lower() == "true")
    return t.Str(value=text)


def variables(text: str) -> list[tuple[str, str | None]]:
    """Return the variables in a text of main.parameters.json, with their defaults."""
    return [(one[1], one[2]) for one in _VARIABLE.finditer(text)]


def parameters(folder: Folder) -> dict[str, Any] | None:
    """Return the members of main.parameters.json; ``None``: it can't be read."""
    path = folder.root / PARAMETERS_FILE
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["parameters"])
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
