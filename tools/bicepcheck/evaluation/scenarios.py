"""Sets of parameters under which a deployment is thought through."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.deployment import Deployment
from tools.bicepcheck.evaluation.values import Given
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import Folder
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types.declared import Types

_VARIABLE = re.compile(r"\$\{(\w+)(?:=([^}]*))?\}")


def deployments(folder: Folder, types: Types) -> list[Deployment]:
    """
    Return a deployment as it comes, and ones with other parameters.

    In one everything is given and switched on, as main.parameters.json gives it; in the others
    each number is at a limit of its own, and each choice is taken once.
    """
    found = [{}, _everything(folder, types), *_limits(folder, types)]
    return [Deployment(folder, params) for params in found]


def _optional(folder: Folder) -> Iterator[tuple[s.Param, Any]]:
    """Yield the parameters of main.bicep with a plain default, and this."""
    for one in folder.main.all(s.Param) if folder.main else ():
        if isinstance(one.default, s.Literal):
            yield one, one.default.value


def _limits(folder: Folder, types: Types) -> Iterator[dict[str, Any]]:
    choices: dict[str, list[Any]] = {}
    for one, _ in _optional(folder):
        kind = types.of(one.type, folder.main, one.decorators) if folder.main else t.ANY
        if isinstance(kind, t.Int):
            choices[one.name] = [at for at in (kind.least, kind.most) if at is not None]
        elif isinstance(kind, t.Union):
            values = [part.value for part in kind.of if isinstance(part, t.Int | t.Str)]
            choices[one.name] = [value for value in values if value is not None]
    for at in range(max(map(len, choices.values()), default=0)):
        yield {name: values[at] for name, values in choices.items() if at < len(values)}


def _everything(folder: Folder, types: Types) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if folder.main is None:
        return found
    for one, default in _optional(folder):
        secret = any(mark.name == "secure" for mark in one.decorators)
        if default == "":
            found[one.name] = Given(one.name, secret)
        elif isinstance(default, bool):
            found[one.name] = not default
        elif default == 0:
            kind = types.of(one.type, folder.main, one.decorators)
            if t.mismatch(t.Int(value=1), kind) is None:
                found[one.name] = 1
    return found | _written(folder, types)


def _written(folder: Folder, types: Types) -> dict[str, Any]:
    """Return the values that main.parameters.json gives where no variable is set."""
    found: dict[str, Any] = {}
    asked = types.params(folder.main).fields if folder.main else {}
    for name, entry in (parameters(folder) or {}).items():
        value = entry.get("value") if isinstance(entry, dict) else None
        if isinstance(value, str) and (names := variables(value)):
            value = names[0][1]
        if value in (None, "", "0", "false", 0) or name not in asked:
            continue
        kind = typed(str(value), asked[name].type)
        found[name] = kind.value if isinstance(kind, t.Int | t.Bool | t.Str) else value
    return found


def typed(text: str, asked: t.Type) -> t.Type:
    """Return a text as azd hands it over: a number or a bool where one is asked for."""
    kinds = {type(one) for one in t.parts(asked)}
    if t.Int in kinds and re.fullmatch(r"-?\d+", text):
        return t.Int(value=int(text))
    if t.Bool in kinds and text.lower() in {"true", "false"}:
        return t.Bool(value=text.lower() == "true")
    return t.Str(value=text)


def variables(text: str) -> list[tuple[str, str | None]]:
    """Return the variables of a text of main.parameters.json with their defaults."""
    return [(one[1], one[2]) for one in _VARIABLE.finditer(text)]


def parameters(folder: Folder) -> dict[str, Any] | None:
    """Return the members of main.parameters.json; ``None``: it can't be read."""
    path = folder.root / "main.parameters.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return dict(document["parameters"])
    except (OSError, ValueError, KeyError, AttributeError):
        return None
