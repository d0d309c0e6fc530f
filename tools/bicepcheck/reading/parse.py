"""Parses Bicep text into a syntax tree; rejects what the grammar accepts and Bicep does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import tree_sitter
import tree_sitter_bicep

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.expressions import (
    COMMENTS,
    Fault,
    TreeNode,
    Unsupported,
    continues,
    decorators_of,
    expression,
    line_of,
    named,
    resource,
    string,
    text_of,
)
from tools.bicepcheck.reading.modern import rewritten
from tools.bicepcheck.reading.precedence import without_parentheses

_DIRECTIVE = re.compile(
    r"#(disable-next-line|disable-diagnostics|restore-diagnostics)( [\w-]+)+\s*"
)
_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bicep.language()))


class Unreadable(Exception):
    """The file is not Bicep: *faults* are lines and messages."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(str(faults))
        self.faults = faults


@lru_cache(maxsize=100)  # a score reads the same few files again and again
def parse(text: str) -> tuple[s.Node, ...]:
    """
    Return the declarations of a file.

    Raises:
        Unreadable: with every place that is not Bicep.
    """
    text, typed = rewritten(text)
    root = _PARSER.parse(text.encode()).root_node
    faults = [*_errors(root), *_missing_separators(root)]
    if faults:
        raise Unreadable(sorted(set(faults)))
    try:
        found = [without_parentheses(one) for one in _declarations(root)]
    except Unsupported as error:
        raise Unreadable([error.fault]) from error
    return tuple(_variable(one) if getattr(one, "name", "") in typed else one for one in found)


def _variable(one: s.Node) -> s.Node:
    """Return the typed variable that was rewritten as a parameter."""
    if not isinstance(one, s.Param) or one.default is None:
        return one
    common: Any = {"line": one.line, "name": one.name, "decorators": one.decorators}
    return s.Var(value=one.default, type=one.type, **common)


def _errors(node: TreeNode) -> Iterator[Fault]:
    if node.is_missing:
        yield line_of(node), f"'{node.type}' is missing; add it"
    elif node.type == "ERROR":
        yield line_of(node), f"unexpected text: {text_of(node).strip()[:40]!r}; see Bicep's syntax"
    elif node.type == "diagnostic_comment" and not _DIRECTIVE.fullmatch(text_of(node)):
        message = f"neither a directive nor a comment: {text_of(node)[:40]!r}; comments use //"
        yield line_of(node), message
    else:
        for child in node.children:
            yield from _errors(child)


def _missing_separators(node: TreeNode) -> Iterator[Fault]:
    if node.type in {"infrastructure", "object", "array"}:
        before: TreeNode | None = None
        for child in node.children:
            if child.type in COMMENTS:
                continue
            if before and _on_one_line(before, child) and not continues(before, child):
                yield line_of(child), "two items on one line: put a comma or a new line between"
            before = child
    for child in node.children:
        yield from _missing_separators(child)


def _on_one_line(before: TreeNode, node: TreeNode) -> bool:
    return before.is_named and node.is_named and before.end_point[0] == node.start_point[0]


def _declarations(root: TreeNode) -> Iterator[s.Node]:
    decorators: tuple[s.Call, ...] = ()
    for node in named(root):
        if node.type == "decorators":
            decorators = decorators_of(node)
            continue
        yield _declaration(node, decorators)
        decorators = ()


def _declaration(node: TreeNode, decorators: tuple[s.Call, ...]) -> s.Node:
    parts, line = named(node), line_of(node)
    common: Any = {"line": line, "decorators": decorators, "name": text_of(parts[0])}
    match node.type:
        case "target_scope_assignment":
            return s.TargetScope(line=line, value=expression(parts[0]))
        case "metadata_declaration":
            return s.Metadata(value=expression(parts[1]), **common)
        case "import_functionality":
            return _import(node)
        case "parameter_declaration":
            default = expression(parts[2]) if len(parts) > 2 else None
            return s.Param(type=expression(parts[1]), default=default, **common)
        case "variable_declaration":
            return s.Var(value=expression(parts[1]), **common)
        case "output_declaration":
            return s.Output(type=expression(parts[1]), value=expression(parts[2]), **common)
        case "type_declaration":
            return s.TypeAlias(type=expression(parts[1]), **common)
        case "user_defined_function":
            pairs = [named(one) for one in named(parts[1])]
            params = tuple((text_of(name), expression(kind)) for name, kind in pairs)
            returns, body = expression(parts[2]), expression(parts[3])
            return s.Function(params=params, returns=returns, body=body, **common)
        case "resource_declaration":
            return resource(node, decorators)
        case "module_declaration":
            return s.Module(path=string(parts[1]), value=expression(parts[2]), **common)
    raise Unsupported(node)


def _import(node: TreeNode) -> s.Import:
    path = string(next(child for child in node.children if child.type == "string"))
    words = [text_of(child) for child in node.children if child.type in {"*", "as", "identifier"}]
    if "*" in words:
        return s.Import(line=line_of(node), path=path, names=(), wildcard=words[-1])
    names: list[tuple[str, str]] = []
    for before, word in zip(["", *words], words, strict=False):
        if before == "as":
            names[-1] = (names[-1][0], word)
        elif word != "as":
            names.append((word, word))
    return s.Import(line=line_of(node), path=path, names=tuple(names), wildcard=None)
