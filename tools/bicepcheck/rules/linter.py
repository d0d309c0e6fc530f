"""Rules of Bicep's own linter that find faults, and the linter's configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tools.bicepcheck.problems import Problem
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder

CONFIG = "bicepconfig.json"
_LEVELS = ("off", "info", "warning", "error")
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_CLOUD = re.compile(
    r"\b(core\.windows\.net|database\.windows\.net|graph\.windows\.net|vault\.azure\.net"
    r"|management\.azure\.com|management\.core\.windows\.net|login\.microsoftonline\.com"
    r"|trafficmanager\.net|gallery\.azure\.com|api\.loganalytics\.io)\b"
)
"""Addresses of one cloud; environment() returns those of each."""


def check(folder: Folder) -> Iterator[Problem]:
    """Check all files, and the linter's configuration."""
    yield from _configuration(folder)
    for file in folder.readable:
        yield from _addresses(file)
        for one in file.all(s.Deployable):
            yield from _dependencies(file, one)


def _addresses(file: File) -> Iterator[Problem]:
    descriptions = [call for call in file.all(s.Call) if call.name == "description"]
    exempt = {id(node) for one in (*descriptions, *file.all(s.Metadata)) for node in one.tree}
    for node in file.nodes:
        if not isinstance(node, s.Literal | s.Interpolation) or id(node) in exempt:
            continue
        for part in node.parts if isinstance(node, s.Interpolation) else (node.value,):
            if isinstance(part, str) and (found := _CLOUD.search(part)):
                message = f"'{found[0]}' is an address of one cloud: use environment()"
                yield file.problem(node, "hard-coded-url", message)


def _dependencies(file: File, one: s.Deployable) -> Iterator[Problem]:
    """A reference implies the dependency."""
    body, depends = one.body, one.property("dependsOn")
    if not isinstance(body, s.Object) or not depends or not isinstance(depends.value, s.Array):
        return
    others = [member for member in body.properties if member is not depends]
    used = {name for member in others for name in _used(file, member, frozenset())}
    for item in depends.value.items:
        declared = file.symbols.get(item.name) if isinstance(item, s.Name) else None
        existing = isinstance(declared, s.Resource) and declared.existing
        if isinstance(item, s.Name) and item.name in used and not existing:
            message = f"'{item.name}' is referenced here, which implies dependsOn; delete it"
            yield file.problem(item, "depends-on", message)


def _used(file: File, node: s.Node, seen: frozenset[str]) -> Iterator[str]:
    """Yield the names that an expression uses, directly or through variables."""
    for one in s.walk(node, s.Name):
        if one.name not in seen:
            yield one.name
            declared = file.symbols.get(one.name)
            if isinstance(declared, s.Var):
                yield from _used(file, declared.value, seen | {one.name})


def _configuration(folder: Folder) -> Iterator[Problem]:
    path = folder.root / CONFIG
    if not path.exists():
        return
    text = _STRING_OR_COMMENT.sub(lambda found: found[1] or "", path.read_text(encoding="utf-8"))
    try:
        document = json.loads(_TRAILING_COMMA.sub(r"\1", text))
    except json.JSONDecodeError as error:
        yield Problem(CONFIG, error.lineno, "syntax", f"not valid JSON: {error.msg}")
        return
    rules = document.get("analyzers", {}).get("core", {}).get("rules", {})
    for name, rule in rules.items():
        if (level := rule.get("level", "warning")) not in _LEVELS:
            message = f"{name}: there is no level '{level}'; use {', '.join(_LEVELS)}"
            yield Problem(CONFIG, 1, "linter", message)
