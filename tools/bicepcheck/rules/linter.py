"""Rules of Bicep's own linter that are about faults, and its configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder

CONFIG = "bicepconfig.json"
_LEVELS = frozenset({"off", "info", "warning", "error"})
_TEXT_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r",(\s*[}\]])")
_CLOUD = re.compile(
    r"\b(core\.windows\.net|database\.windows\.net|graph\.windows\.net|vault\.azure\.net"
    r"|management\.azure\.com|management\.core\.windows\.net|login\.microsoftonline\.com"
    r"|trafficmanager\.net|gallery\.azure\.com|api\.loganalytics\.io)\b"
)
"""Addresses of one cloud, which environment() knows for each."""


def check(folder: Folder) -> None:
    """Check all files, and the linter's configuration."""
    _configuration(folder)
    for file in folder.readable:
        for one in file.declarations:
            if not isinstance(one, s.Metadata):
                _addresses(file, one, folder)
            for node in s.walk(one):
                if isinstance(node, s.Resource | s.Module):
                    _waits(file, node, folder)


def _addresses(file: File, declaration: s.Node, folder: Folder) -> None:
    described = {
        id(node)
        for call in s.walk(declaration)
        if isinstance(call, s.Call) and call.name == "description"
        for node in s.walk(call)
    }
    for node in s.walk(declaration):
        if id(node) in described:
            continue
        parts: tuple[Any, ...] = (node.value,) if isinstance(node, s.Literal) else ()
        for part in node.parts if isinstance(node, s.Text) else parts:
            if isinstance(part, str) and (found := _CLOUD.search(part)):
                message = f"'{found[0]}' is an address of one cloud: use environment()"
                folder.report.add(file.name, node.line, "hard-coded-url", message)


def _waits(file: File, one: s.Resource | s.Module, folder: Folder) -> None:
    """What is used is waited for anyway."""
    body = s.loop_parts(one.value)[2]
    waits = body.get("dependsOn") if isinstance(body, s.Object) else None
    if not isinstance(body, s.Object) or waits is None or not isinstance(waits.value, s.Array):
        return
    used: set[str] = set()
    for member in body.properties:
        if member is not waits:
            used.update(_used(file, member, frozenset()))
    for item in waits.value.items:
        declared = file.symbols.get(item.name) if isinstance(item, s.Name) else None
        existing = isinstance(declared, s.Resource) and declared.existing
        if isinstance(item, s.Name) and item.name in used and not existing:
            message = f"'{item.name}' is used, and so waited for anyway"
            folder.report.add(file.name, item.line, "depends-on", message)


def _used(file: File, node: s.Node, seen: frozenset[str]) -> Iterator[str]:
    """Yield the names that an expression uses, those behind variables included."""
    for one in s.walk(node):
        if isinstance(one, s.Name) and one.name not in seen:
            yield one.name
            declared = file.symbols.get(one.name)
            if isinstance(declared, s.Var):
                yield from _used(file, declared.value, seen | {one.name})


def _configuration(folder: Folder) -> None:
    path = folder.root / CONFIG
    if not path.exists():
        return
    text = _TEXT_OR_COMMENT.sub(lambda found: found[1] or "", path.read_text(encoding="utf-8"))
    try:
        document = json.loads(_TRAILING.sub(r"\1", text))
    except ValueError as error:
        folder.report.add(CONFIG, getattr(error, "lineno", 1), "syntax", f"is no JSON: {error}")
        return
    rules = document.get("analyzers", {}).get("core", {}).get("rules", {})
    for name, rule in rules.items():
        if (level := rule.get("level", "warning")) not in _LEVELS:
            folder.report.add(CONFIG, 1, "linter", f"{name}: there is no level '{level}'")
