"""Bicep text to a tree, by tree-sitter's grammar; what the grammar lets through is refused here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import tree_sitter
import tree_sitter_bicep

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.expressions import (
    COMMENTS,
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
from tools.bicepcheck.reading.newer import plain
from tools.bicepcheck.reading.precedence import bare

_DIRECTIVE = re.compile(
    r"#(disable-next-line|disable-diagnostics|restore-diagnostics)( [\w-]+)+\s*"
)

_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bicep.language()))
Fault = tuple[int, str]


class Unreadable(Exception):
    """The file is no Bicep: *faults* are lines and messages."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(str(faults))
        self.faults = faults


def parse(text: str) -> tuple[s.Node, ...]:
    """
    Return the declarations of a file.

    Raises:
        Unreadable: with every place that is no Bicep.
    """
    known = plain(text)
    root = _PARSER.parse(known.text.encode()).root_node
    faults = [*_errors(root), *_crowded(root)]
    if faults:
        raise Unreadable(sorted(set(faults)))
    try:
        found = tuple(bare(one) for one in _declarations(root))
    except Unsupported as odd:
        raise Unreadable([odd.fault]) from odd
    return tuple(
        _typed(one) if isinstance(one, s.Param) and one.name in known.typed else one
        for one in found
    )


def _typed(one: s.Param) -> s.Node:
    """Return the variable that was read as a parameter."""
    if one.default is None:
        return one
    return s.Var(
        line=one.line, name=one.name, decorators=one.decorators, value=one.default, type=one.type
    )


def _errors(node: TreeNode) -> Iterator[Fault]:
    if node.is_missing:
        yield line_of(node), f"'{node.type}' is missing"
    elif node.type == "ERROR":
        yield line_of(node), f"not expected here: {text_of(node).strip()[:40]!r}"
    elif node.type == "diagnostic_comment" and not _DIRECTIVE.fullmatch(text_of(node)):
        yield line_of(node), f"no directive, and no comment: {text_of(node)[:40]!r}"
    else:
        for child in node.children:
            yield from _errors(child)


def _crowded(node: TreeNode) -> Iterator[Fault]:
    """Yield what needs a line of its own, or a comma, and has neither."""
    if node.type in {"infrastructure", "object", "array"}:
        before: TreeNode | None = None
        for child in node.children:
            if child.type in COMMENTS:
                continue
            if before and _same_line(before, child) and not continues(before, child):
                yield line_of(child), "a new line or a comma is missing before this"
            before = child
    for child in node.children:
        yield from _crowded(child)


def _same_line(before: TreeNode, node: TreeNode) -> bool:
    named = before.is_named and node.is_named
    return named and before.end_point[0] == node.start_point[0]


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
    common: Any = {"line": line, "decorators": decorators}
    match node.type:
        case "target_scope_assignment":
            return s.TargetScope(line=line, value=expression(parts[0]))
        case "metadata_declaration":
            return s.Metadata(line=line, name=text_of(parts[0]), value=expression(parts[1]))
        case "import_functionality":
            return _import(node)
        case "parameter_declaration":
            default = expression(parts[2]) if len(parts) > 2 else None
            kind = expression(parts[1])
            return s.Param(name=text_of(parts[0]), type=kind, default=default, **common)
        case "variable_declaration":
            return s.Var(name=text_of(parts[0]), value=expression(parts[1]), **common)
        case "output_declaration":
            kind, value = (expression(part) for part in parts[1:3])
            return s.Output(name=text_of(parts[0]), type=kind, value=value, **common)
        case "type_declaration":
            return s.TypeOf(name=text_of(parts[0]), type=expression(parts[1]), **common)
        case "user_defined_function":
            return _function(node, common)
        case "resource_declaration":
            return resource(node, decorators)
        case "module_declaration":
            value = expression(parts[2])
            return s.Module(name=text_of(parts[0]), path=string(parts[1]), value=value, **common)
    raise Unsupported(node)


def _function(node: TreeNode, common: Any) -> s.Function:
    parts = named(node)
    params = tuple((text_of(named(one)[0]), expression(named(one)[1])) for one in named(parts[1]))
    return s.Function(
        name=text_of(parts[0]),
        params=params,
        returns=expression(parts[2]),
        body=expression(parts[3]),
        **common,
    )


def _import(node: TreeNode) -> s.Import:
    names: list[tuple[str, str]] = []
    wildcard = None
    alias = False
    everything = False
    for child in node.children:
        if child.type == "*":
            everything = True
        elif child.type == "as":
            alias = True
        elif child.type == "identifier":
            if everything:
                wildcard = text_of(child)
            elif alias:
                names[-1] = (names[-1][0], text_of(child))
            else:
                names.append((text_of(child), text_of(child)))
            alias = False
    path = string(next(child for child in node.children if child.type == "string"))
    return s.Import(line=line_of(node), path=path, names=tuple(names), wildcard=wildcard)
