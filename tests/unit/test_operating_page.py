"""The log table of docs/operating.md has each event that the app logs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [
    ast.parse(path.read_text())
    for folder in ("shared", "devhost", "*_function")
    for each in ROOT.glob(folder)
    for path in each.rglob("*.py")
]
LEVELS = {"info", "warning", "error"}


def _last_name(called: ast.expr) -> str:
    match called:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
    return ""


CALLS = [node for source in SOURCES for node in ast.walk(source) if isinstance(node, ast.Call)]
FIRST_ARGUMENTS = [(_last_name(call.func), call.args[0]) for call in CALLS if call.args]
KEYWORDS = [(keyword.arg, keyword.value) for call in CALLS for keyword in call.keywords]


def logged() -> set[str]:
    """Return the names of all log lines."""
    return {name for source in SOURCES for name in _names(source)}


def _names(source: ast.AST, function: str = "") -> Iterator[str]:
    for node in ast.iter_child_nodes(source):
        inner = node.name if isinstance(node, ast.FunctionDef) else function
        if isinstance(node, ast.Call) and _is_log(node.func):
            yield from _values(node.args[0], function)
        yield from _names(node, inner)


def _is_log(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and called.attr in LEVELS
        and ast.unparse(called.value) == "telemetry"
    )


def _values(name: ast.expr, function: str) -> Iterator[str]:
    """Yield what the name of a line can be: a text, the function's argument, or a noun's verb."""
    match name:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name():
            yield from _texts(FIRST_ARGUMENTS, function)
        case ast.JoinedStr(values=[ast.FormattedValue(value=ast.Attribute(attr=word)), end]):
            yield from (noun + ast.literal_eval(end) for noun in _texts(KEYWORDS, word))
        case _:
            raise AssertionError(f"{ast.unparse(name)}: this test can't tell the name")


def _texts(named: Iterable[tuple[str | None, ast.expr]], name: str) -> Iterator[str]:
    """Yield the texts that stand under *name*."""
    for known, value in named:
        if known == name and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def test_each_log_line_is_in_the_table() -> None:
    page = (ROOT / "docs/operating.md").read_text()
    table = page.split("| `event` | content |")[1].split("\n\n")[0]
    described = {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall("`(.+?)`", row.split("|")[1])
    }

    names = logged()
    assert {"storage.failed", "replay.started", "topic.changed"} <= names
    assert described == names
