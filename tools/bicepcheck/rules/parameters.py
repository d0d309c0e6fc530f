"""main.parameters.json beside the parameters of main.bicep."""

from __future__ import annotations

import re
from typing import Any

from tools.bicepcheck.evaluation import scenarios
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import Folder
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types.declared import Types

FILE = "main.parameters.json"
AZD = {
    "environmentName": "AZURE_ENV_NAME",
    "location": "AZURE_LOCATION",
    "principalId": "AZURE_PRINCIPAL_ID",
    "principalType": "AZURE_PRINCIPAL_TYPE",
}
"""Variables that azd sets itself, and what they are for. All others are the user's: PUSHGRID_…"""

_PREFIX = "PUSHGRID_"
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


def check(folder: Folder, types: Types) -> None:
    """Check names, variables and values of the file."""
    if folder.main is None or not (folder.root / FILE).exists():
        return
    lines = (folder.root / FILE).read_text(encoding="utf-8").splitlines()

    def problem(name: str, message: str) -> None:
        line = next((at for at, text in enumerate(lines, 1) if f'"{name}"' in text), 1)
        folder.report.add(FILE, line, "parameters", message)

    given = scenarios.parameters(folder)
    if given is None:
        problem("", "can't be read")
        return
    asked = types.params(folder.main)
    for name, entry in given.items():
        if name not in asked.fields:
            hint = t.nearest(name, list(asked.fields))
            problem(name, f"main.bicep has no parameter '{name}'{hint}")
        elif not isinstance(entry, dict) or set(entry) != {"value"}:
            problem(name, f"'{name}' has no value")
        elif why := _value(name, entry["value"], asked.fields[name].type):
            problem(name, f"{name}: {why}")
    for name, field in asked.fields.items():
        if name not in given and (field.required or name in AZD):
            problem("parameters", f"'{name}' is missing")
    _once(given, problem)
    _generated(folder, asked)


def _value(name: str, value: Any, asked: t.Type) -> str | None:
    if not isinstance(value, str):
        return t.mismatch(scenarios.typed(str(value), asked), asked)
    found = scenarios.variables(value)
    if not found:
        return (
            t.mismatch(scenarios.typed(value, asked), asked)
            if "$" not in value
            else f"'{value}' is no variable"
        )
    if len(found) > 1 or not value.startswith("${") or not value.endswith("}"):
        return f"'{value}' is more than a variable"
    variable, default = found[0]
    expected = {AZD[name]} if name in AZD else {_PREFIX + _snake(name)}
    if variable not in expected:
        return f"the variable is {min(expected)}, not {variable}"
    return t.mismatch(scenarios.typed(default, asked), asked) if default is not None else None


def _generated(folder: Folder, asked: t.Obj) -> None:
    """What azd makes itself, as `@metadata()` says, fits the parameter."""
    for one in folder.main.all(s.Param) if folder.main else ():
        for mark in one.decorators:
            length = next(
                (
                    node.value.value
                    for node in s.walk(mark)
                    if isinstance(node, s.Property)
                    and node.key == "length"
                    and isinstance(node.value, s.Literal)
                ),
                None,
            )
            if mark.name == "metadata" and isinstance(length, int):
                made = t.Str(value="x" * length)
                if t.mismatch(made, asked.fields[one.name].type) and folder.main:
                    message = (
                        f"azd makes {length} letters for {one.name}, which are too few or many"
                    )
                    folder.report.add(folder.main.name, mark.line, "parameters", message)


def _once(given: dict[str, Any], problem: Any) -> None:
    seen: dict[str, str] = {}
    for name, entry in given.items():
        text = str(entry.get("value")) if isinstance(entry, dict) else ""
        for variable, _ in scenarios.variables(text):
            if variable in seen:
                problem(name, f"{variable} is read for '{seen[variable]}' as well")
            seen[variable] = name


def _snake(name: str) -> str:
    return "_".join(_WORDS.findall(name)).upper()
