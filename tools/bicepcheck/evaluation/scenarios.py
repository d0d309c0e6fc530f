"""Chooses the sets of parameters with which a deployment is evaluated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.shapes import Shape, declared, faults, params, typed
from tools.bicepcheck.evaluation.values import Input
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder

PARAMETERS_FILE = "main.parameters.json"
_VARIABLE = re.compile(r"\$\{(\w+)(?:=([^}]*))?\}")


def deployments(folder: Folder) -> Iterator[EvaluatedFolder]:
    """
    Yield the deployment with its default parameters, and with others.

    In the second, every optional parameter is set and every switch is turned, or as
    main.parameters.json has it. In the others, each number is at one of its limits, and each choice
    is taken once.
    """
    main = folder.main
    if main is None:
        return
    everything = _everything(main) | _parameters_file(folder, main)
    for given in ({}, everything, *_limits(main, everything)):
        yield EvaluatedFolder(folder, given)


def _optional(main: File) -> Iterator[tuple[s.Param, Any, Shape]]:
    """Yield the parameters of main.bicep with a literal default, the default and the shape."""
    for one in main.all(s.Param):
        if isinstance(one.default, s.Literal):
            yield one, one.default.value, declared(one.type, main, one.decorators)


def _limits(main: File, others: dict[str, Any]) -> Iterator[dict[str, Any]]:
    choices: dict[str, list[Any]] = {}
    for one, _, shape in _optional(main):
        limits = (shape.low, shape.high) if shape.kind == "int" and not shape.values else ()
        choices[one.name] = [value for value in shape.values or limits if value is not None]
    for at in range(max(map(len, choices.values()), default=0)):
        yield others | {name: values[at] for name, values in choices.items() if at < len(values)}


def _everything(main: File) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one, default, shape in _optional(main):
        if default == "":
            found[one.name] = Input(one.name, one.has("secure"), kind=shape.kind)
        elif isinstance(default, bool):
            found[one.name] = not default
        elif default == 0 and not [*faults(1, shape)]:
            found[one.name] = 1
    return found


def _parameters_file(folder: Folder, main: File) -> dict[str, Any]:
    """Return the values that main.parameters.json sets where no variable does."""
    found: dict[str, Any] = {}
    expected = params(main).members or {}
    for name, entry in (parameters(folder) or {}).items():
        value = entry.get("value") if isinstance(entry, dict) else None
        if isinstance(value, str) and (names := variables(value)):
            value = names[0][1]
        if value not in (None, "", "0", "false", 0) and name in expected:
            found[name] = typed(str(value), expected[name].shape)
    return found


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
