"""Sets of parameters under which a deployment is thought through."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.infra import syntax as s
from tests.infra import types as t
from tests.infra.declared_types import Types
from tests.infra.evaluate import Deployment
from tests.infra.model import Folder
from tests.infra.values import Given

_VARIABLE = re.compile(r"\$\{(\w+)(?:=([^}]*))?\}")


def deployments(folder: Folder, types: Types) -> list[Deployment]:
    """Return a deployment as it comes, and one with everything that can be given or switched on."""
    return [Deployment(folder, {}), Deployment(folder, _everything(folder, types))]


def _everything(folder: Folder, types: Types) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if folder.main is None:
        return found
    for one in folder.main.all(s.Param):
        if not isinstance(one, s.Param) or not isinstance(one.default, s.Literal):
            continue
        secret = any(mark.name == "secure" for mark in one.decorators)
        default = one.default.value
        if default == "":
            found[one.name] = Given(one.name, secret)
        elif isinstance(default, bool):
            found[one.name] = not default
        elif default == 0:
            kind = types.of(one.type, folder.main, one.decorators)
            if t.mismatch(t.Int(value=1), kind) is None:
                found[one.name] = 1
    return found


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
