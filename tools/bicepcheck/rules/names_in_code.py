"""Reads the names from the app's code that the templates must use as well."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parents[1] / "data" / "example-app.json"
"""The names of the app that the example was written for."""

PAYLOADS = "PAYLOADS"
"""The constant in the code that names the container of payloads."""

STORAGE = "STORAGE"
"""The constant in the code that names its connection to storage."""

RETENTION_DAYS = 15
"""Payloads live twice the longest time to live, 14 days; housekeeping may pause for a day."""

_PERCENT = re.compile(r"%(\w+)%")
_LEVELS = frozenset({"info", "warning", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Names that code and templates share."""

    queues: frozenset[str]
    tables: frozenset[str]
    containers: frozenset[str]
    settings: frozenset[str]
    # Settings without which the app or one of its functions does not start.
    required: frozenset[str]
    connections: frozenset[str]  # prefixes of the settings that locate storage
    functions: dict[str, str]
    events: dict[str, frozenset[str]]  # log lines by name with their fields
    expiring: frozenset[str]  # containers that a lifecycle rule may empty, after the retention days
    service: str  # its name in azure.yaml
    retention_days: int


def of_folder(folder: Path) -> App:
    """Return the app beside a folder of templates; without one, that of the example."""
    beside = folder.resolve().parent
    return read(beside) if (beside / "azure.yaml").exists() else _of_example()


@cache
def _of_example() -> App:
    values = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    found: dict[str, Any] = {field.name: values[field.name] for field in fields(App)}
    found |= {name: frozenset(one) for name, one in found.items() if isinstance(one, list)}
    found["events"] = {name: frozenset(one) for name, one in found["events"].items()}
    return App(**found)


@lru_cache(maxsize=1000)  # the corpus reads the same files again and again
def _parsed(text: str) -> tuple[ast.Module, tuple[ast.Call, ...]]:
    tree = ast.parse(text)
    return tree, tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call))


def read(root: Path) -> App:
    """Return what the code in *root* says."""
    paths = sorted((root / "shared").rglob("*.py"))
    parsed = [_parsed(path.read_text(encoding="utf-8")) for path in paths]
    trees, calls = [tree for tree, _ in parsed], [call for _, many in parsed for call in many]
    constants = {name: value for tree in trees for name, value in _constants(tree)}
    documents = sorted(root.glob("*/function.json"))
    functions = {one.parent.name: json.loads(one.read_text(encoding="utf-8")) for one in documents}
    bindings = [binding for one in functions.values() for binding in one["bindings"]]
    triggers = {one["queueName"] for one in bindings if one["type"] == "queueTrigger"}
    connections = {one["connection"] for one in bindings if "connection" in one}
    connections |= {constants[STORAGE]} if STORAGE in constants else set()
    percent = frozenset(_PERCENT.findall(json.dumps(bindings)))
    return App(
        queues=_enumeration(trees, "Queue") | triggers | {f"{one}-poison" for one in triggers},
        tables=_enumeration(trees, "Table") | _passed(calls, "table", constants),
        containers=_passed(calls, "container", constants),
        settings=frozenset(_settings(trees) | percent) - connections,
        required=percent,
        connections=frozenset(connections),
        functions={name: one["bindings"][0]["type"] for name, one in functions.items()},
        events=_events(calls),
        expiring=frozenset({constants[PAYLOADS]} if PAYLOADS in constants else ()),
        service=_service(root / "azure.yaml"),
        retention_days=RETENTION_DAYS,
    )


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as value)):
                yield name, value


def _enumeration(trees: list[ast.Module], name: str) -> frozenset[str]:
    """Return the values of an enumeration."""
    return frozenset(
        str(one.value.value)
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == name
        for one in node.body
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
    )


def _passed(calls: list[ast.Call], method: str, constants: dict[str, str]) -> frozenset[str]:
    """Return the constants that are the first argument of a method of that name."""
    found = set()
    for call in calls:
        match call:
            case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Name(id=name), *_]):
                if attr == method and name in constants:
                    found.add(constants[name])
    return frozenset(found)


def _settings(trees: list[ast.Module]) -> set[str]:
    """Return the names in `_SETTINGS` of shared/settings/: `member: (name, conversion)`."""
    for tree in trees:
        for node in tree.body:
            match node:
                case ast.AnnAssign(target=ast.Name(id="_SETTINGS"), value=ast.Dict(values=rows)):
                    names = [row.elts[0] for row in rows if isinstance(row, ast.Tuple)]
                    return {str(one.value) for one in names if isinstance(one, ast.Constant)}
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
