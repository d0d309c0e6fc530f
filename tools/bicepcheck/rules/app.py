"""What the app's code says: the names and settings that templates must agree with."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = Path(__file__).parents[1].joinpath("data") / "example-app.json"
"""The same of the app that the example was written for."""

PAYLOADS = "PAYLOADS"
"""The constant of the code that names the container of payloads."""

STORAGE = "STORAGE"
"""The constant of the code that names its connection to storage."""

KEPT_DAYS = 15
"""Payloads live twice the longest time to live, 14 days, and housekeeping may pause a day."""

_PERCENT = re.compile(r"%(\w+)%")
_LEVELS = frozenset({"info", "warning", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """
    Names that both sides know.

    *events*: log lines by name with their fields; *required*: settings without which the app, or a
    function of it, does not start; *connections*: prefixes of the settings that say where storage
    is; *expiring*: containers that a lifecycle rule may empty, after *kept_days*; *service*: its
    name in azure.yaml.
    """

    queues: frozenset[str]
    triggers: frozenset[str]
    tables: frozenset[str]
    containers: frozenset[str]
    settings: frozenset[str]
    required: frozenset[str]
    connections: frozenset[str]
    functions: dict[str, str]
    events: dict[str, frozenset[str]]
    expiring: frozenset[str]
    service: str
    kept_days: int

    def names(self) -> frozenset[str]:
        """Return the names that a folder of templates can be told by."""
        return self.queues | self.tables | self.containers | self.required


def of_folder(folder: Path, have: frozenset[str]) -> App:
    """
    Return the app that templates in *folder* are for; *have*: the names that stand in them.

    It is the one beside the folder. A folder by itself is a copy: of the example or of our own.
    """
    beside = folder.resolve().parent
    if (beside / "azure.yaml").exists() and (beside / "host.json").exists():
        return read(beside)
    return min((_ours(), of_json(EXAMPLE)), key=lambda app: len(app.names() - have))


@cache
def _ours() -> App:
    return read(ROOT)


def of_json(path: Path) -> App:
    """Return an app that is written down."""
    values = json.loads(path.read_text(encoding="utf-8"))
    made: dict[str, Any] = {}
    for field in fields(App):
        value = values[field.name]
        made[field.name] = frozenset(value) if isinstance(value, list) else value
    made["events"] = {name: frozenset(one) for name, one in made["events"].items()}
    return App(**made)


def read(root: Path) -> App:
    """Return what the code in *root* says."""
    trees = [
        ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((root / "shared").rglob("*.py"))
    ]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    constants = {name: value for tree in trees for name, value in _constants(tree)}
    functions = {path.parent.name: _function(path) for path in sorted(root.glob("*/function.json"))}
    bindings = [binding for one in functions.values() for binding in one["bindings"]]
    triggers = {one["queueName"] for one in bindings if one["type"] == "queueTrigger"}
    settings = _settings(trees)
    connections = {one["connection"] for one in bindings if "connection" in one}
    connections |= {constants[STORAGE]} if STORAGE in constants else set()
    percent = set(_PERCENT.findall(json.dumps(bindings)))
    return App(
        queues=_members(trees, "Queue") | triggers | {f"{one}-poison" for one in triggers},
        triggers=frozenset(triggers),
        tables=_members(trees, "Table") | _passed(calls, "table", constants),
        containers=_passed(calls, "container", constants),
        settings=frozenset(settings | percent) - connections,
        required=frozenset(percent),
        connections=frozenset(connections),
        functions={name: one["bindings"][0]["type"] for name, one in functions.items()},
        events=_events(calls),
        expiring=frozenset({constants[PAYLOADS]} if PAYLOADS in constants else ()),
        service=_service(root / "azure.yaml"),
        kept_days=KEPT_DAYS,
    )


def _function(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as value)):
                yield name, value


def _members(trees: list[ast.Module], name: str) -> frozenset[str]:
    """Return the values of an enumeration."""
    found = set()
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                found |= {
                    str(one.value.value)
                    for one in node.body
                    if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
                }
    return frozenset(found)


def _passed(calls: list[ast.Call], method: str, constants: dict[str, str]) -> frozenset[str]:
    """Return the constants that are passed to a method of that name."""
    found = set()
    for call in calls:
        match call:
            case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Name(id=name), *_]):
                if attr == method and name in constants:
                    found.add(constants[name])
    return frozenset(found)


def _settings(trees: list[ast.Module]) -> set[str]:
    """Return what `NAMES` of shared/settings.py lists."""
    for tree in trees:
        constants = dict(_constants(tree))
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id="NAMES")], value=ast.Dict(values=values)):
                    texts = {one.value for one in values if isinstance(one, ast.Constant)}
                    names = {constants.get(one.id) for one in values if isinstance(one, ast.Name)}
                    return {str(one) for one in texts | names if one}
    return set()


def _events(calls: list[ast.Call]) -> dict[str, frozenset[str]]:
    """Return the log lines that the code writes: `telemetry.info("name", field=…)`."""
    found: dict[str, frozenset[str]] = {}
    for call in calls:
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="telemetry"), attr=level),
                args=[ast.Constant(value=str() as name)],
                keywords=keywords,
            ) if level in _LEVELS:
                names = {one.arg for one in keywords if one.arg}
                found[name] = found.get(name, frozenset()) | names
    return found


def _service(path: Path) -> str:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.search(r"^services:\s*\n(?:\s*#.*\n)*\s+([\w-]+):", text, re.MULTILINE)
    return found[1] if found else ""
