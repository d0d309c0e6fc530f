"""Rules that compare main.parameters.json with the parameters of main.bicep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.scenarios import PARAMETERS_FILE, parameters, variables
from tools.bicepcheck.evaluation.shapes import Shape, faults, params, suggestion, typed
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.reading.folder import Folder

AZD = {
    "environmentName": "AZURE_ENV_NAME",
    "location": "AZURE_LOCATION",
    "principalId": "AZURE_PRINCIPAL_ID",
    "principalType": "AZURE_PRINCIPAL_TYPE",
}
"""Parameters whose variables azd sets. The user sets all others: PUSHGRID_…"""

_PREFIX = "PUSHGRID_"
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


def check(folder: Folder) -> Iterator[Problem]:
    """Check names, variables and values of the file."""
    path = folder.root / PARAMETERS_FILE
    if folder.main is None or not path.exists():
        return
    lines = path.read_text(encoding="utf-8").splitlines()
    for name, message in _problems(parameters(folder), params(folder.main)):
        line = next((at for at, text in enumerate(lines, 1) if f'"{name}"' in text), 1)
        yield Problem(PARAMETERS_FILE, line, "parameters", message)


def _problems(given: dict[str, Any] | None, expected: Shape) -> Iterator[tuple[str, str]]:
    """Yield the name of a parameter, and what is wrong with it."""
    if given is None:
        yield "", "can't be read: it must be JSON with 'parameters'"
        return
    seen: dict[str, str] = {}
    members = expected.members or {}
    for name, entry in given.items():
        if name not in members:
            yield name, f"main.bicep has no parameter '{name}'{suggestion(name, members)}"
        elif not isinstance(entry, dict) or set(entry) != {"value"}:
            yield name, f"'{name}' must be an object with 'value'"
        elif why := _value(name, entry["value"], members[name].shape):
            yield name, f"{name}: {why}"
        text = str(entry.get("value")) if isinstance(entry, dict) else ""
        for variable, _ in variables(text):
            if variable in seen:
                yield name, f"{variable} sets '{seen[variable]}' already; use another variable"
            seen[variable] = name
    for name, field in members.items():
        if name not in given and (field.required or name in AZD):
            yield "parameters", f"'{name}' is missing; add it"


def _value(name: str, value: Any, expected: Shape) -> str | None:
    if not isinstance(value, str) or "$" not in value:
        return _fault(typed(str(value), expected), expected)
    found = variables(value)
    if len(found) != 1 or not value.startswith("${") or not value.endswith("}"):
        return f"'{value}' must be exactly one variable, such as ${{NAME}} or ${{NAME=default}}"
    variable, default = found[0]
    wanted = AZD.get(name) or _PREFIX + "_".join(_WORDS.findall(name)).upper()
    if variable != wanted:
        return f"the variable must be {wanted}, not {variable}"
    return None if default is None else _fault(typed(default, expected), expected)


def _fault(value: Any, expected: Shape) -> str | None:
    return next((message for _, _, message in faults(value, expected)), None)
