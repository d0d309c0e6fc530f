"""Bicep text to a tree, by tree-sitter's grammar; what the grammar lets through is refused here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import tree_sitter
import tree_sitter_bicep

from tests.infra import syntax as s

_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bicep.language()))
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "'": "'", "\\": "\\", "$": "$"}
_ESCAPE = re.compile(r"\\(u\{([0-9a-fA-F]+)\}|.)", re.DOTALL)
_CHOICE = 1
_STRENGTH = {
    "??": 2,
    "||": 3,
    "&&": 4,
    **dict.fromkeys(("==", "!=", "=~", "!~"), 5),
    **dict.fromkeys(("<", "<=", ">", ">="), 6),
    **dict.fromkeys(("+", "-"), 7),
    **dict.fromkeys(("*", "/", "%"), 8),
}
_UNARY = 9
"""How tightly operators bind."""

TreeNode = tree_sitter.Node
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
    root = _PARSER.parse(text.encode()).root_node
    faults = [*_errors(root), *_crowded(root)]
    if faults:
        raise Unreadable(sorted(set(faults)))
    try:
        return tuple(_bare(one) for one in _declarations(root))
    except Unsupported as odd:
        raise Unreadable([odd.fault]) from odd


class Unsupported(Exception):
    """A node that this check does not know."""

    def __init__(self, node: TreeNode) -> None:
        super().__init__(node.type)
        self.fault = (_line(node), f"not understood: {node.type} {_text(node)[:40]!r}")


def _line(node: TreeNode) -> int:
    return node.start_point[0] + 1


def _text(node: TreeNode) -> str:
    return (node.text or b"").decode()


def _errors(node: TreeNode) -> Iterator[Fault]:
    if node.is_missing:
        yield _line(node), f"'{node.type}' is missing"
    elif node.type == "ERROR":
        yield _line(node), f"not expected here: {_text(node).strip()[:40]!r}"
    elif node.has_error:
        for child in node.children:
            yield from _errors(child)


def _crowded(node: TreeNode) -> Iterator[Fault]:
    """Yield what needs a line of its own, or a comma, and has neither."""
    if node.type in {"infrastructure", "object", "array"}:
        before = None
        for child in node.children:
            if child.type == "comment":
                continue
            if (
                before
                and child.is_named
                and before.is_named
                and before.end_point[0] == _line(child) - 1
            ):
                yield _line(child), "a new line or a comma is missing before this"
            before = child
    for child in node.children:
        yield from _crowded(child)


def _named(node: TreeNode) -> list[TreeNode]:
    return [child for child in node.named_children if child.type != "comment"]


def _declarations(root: TreeNode) -> Iterator[s.Node]:
    decorators: tuple[s.Call, ...] = ()
    for node in _named(root):
        if node.type == "decorators":
            decorators = _decorators(node)
            continue
        yield _declaration(node, decorators)
        decorators = ()


def _decorators(node: TreeNode) -> tuple[s.Call, ...]:
    found = []
    for child in _named(node):
        call = _expression(_named(child)[0])
        if not isinstance(call, s.Call):
            raise Unsupported(child)
        found.append(call)
    return tuple(found)


def _declaration(node: TreeNode, decorators: tuple[s.Call, ...]) -> s.Node:
    parts, line = _named(node), _line(node)
    common: Any = {"line": line, "decorators": decorators}
    match node.type:
        case "target_scope_assignment":
            return s.TargetScope(line=line, value=_expression(parts[0]))
        case "metadata_declaration":
            return s.Metadata(line=line, name=_text(parts[0]), value=_expression(parts[1]))
        case "import_functionality":
            return _import(node)
        case "parameter_declaration":
            default = _expression(parts[2]) if len(parts) > 2 else None
            kind = _expression(parts[1])
            return s.Param(name=_text(parts[0]), type=kind, default=default, **common)
        case "variable_declaration":
            return s.Var(name=_text(parts[0]), value=_expression(parts[1]), **common)
        case "output_declaration":
            kind, value = (_expression(part) for part in parts[1:3])
            return s.Output(name=_text(parts[0]), type=kind, value=value, **common)
        case "type_declaration":
            return s.TypeOf(name=_text(parts[0]), type=_expression(parts[1]), **common)
        case "user_defined_function":
            return _function(node, common)
        case "resource_declaration":
            return _resource(node, decorators)
        case "module_declaration":
            value = _expression(parts[2])
            return s.Module(name=_text(parts[0]), path=_string(parts[1]), value=value, **common)
    raise Unsupported(node)


def _resource(node: TreeNode, decorators: tuple[s.Call, ...]) -> s.Resource:
    parts = _named(node)
    return s.Resource(
        line=_line(node),
        decorators=decorators,
        name=_text(parts[0]),
        type=_string(parts[1]),
        existing=any(child.type == "existing" for child in node.children),
        value=_expression(parts[2]),
    )


def _function(node: TreeNode, common: Any) -> s.Function:
    parts = _named(node)
    params = tuple((_text(_named(one)[0]), _expression(_named(one)[1])) for one in _named(parts[1]))
    return s.Function(
        name=_text(parts[0]),
        params=params,
        returns=_expression(parts[2]),
        body=_expression(parts[3]),
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
                wildcard = _text(child)
            elif alias:
                names[-1] = (names[-1][0], _text(child))
            else:
                names.append((_text(child), _text(child)))
            alias = False
    path = _string(next(child for child in node.children if child.type == "string"))
    return s.Import(line=_line(node), path=path, names=tuple(names), wildcard=wildcard)


def _string(node: TreeNode) -> str:
    value = _expression(node)
    if not isinstance(value, s.Literal) or not isinstance(value.value, str):
        raise Unsupported(node)
    return value.value


def _expression(node: TreeNode) -> s.Node:
    line, parts = _line(node), _named(node)
    match node.type:
        case "string":
            return _quoted(node)
        case "number":
            return s.Literal(line=line, value=int(_text(node)))
        case "boolean":
            return s.Literal(line=line, value=_text(node) == "true")
        case "null":
            return s.Literal(line=line, value=None)
        case "identifier" | "primitive_type" | "compatible_identifier":
            return s.Name(line=line, name=_text(node))
        case "type" | "parenthesized_type":
            return _expression(parts[0])
        case "parenthesized_expression":
            return _Parentheses(line=line, of=_expression(parts[0]))
        case "nullable_type":
            return s.Nullable(line=line, of=_expression(parts[0]))
        case "array_type":
            return s.ArrayOf(line=line, of=_expression(parts[0]))
        case "union_type":
            return s.OneOf(line=line, of=tuple(_expression(part) for part in parts))
        case "member_expression" | "subscript_expression" | "resource_expression":
            return _access(node)
        case "call_expression":
            return _call(node)
        case "unary_expression" | "binary_expression" | "ternary_expression":
            return _operation(node)
        case "lambda_expression":
            names = tuple(_text(one) for one in (_named(parts[0]) or parts[:1]))
            return s.Lambda(line=line, params=names, body=_expression(parts[1]))
        case "array":
            return s.Array(line=line, items=tuple(_expression(part) for part in parts))
        case "object":
            return _object(node)
        case "for_statement":
            return _for(node)
        case "if_statement":
            return s.If(line=line, test=_expression(parts[0]), body=_expression(parts[1]))
    raise Unsupported(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parentheses(s.Node):
    """What stands in parentheses, while the tree is made."""

    of: s.Node


def _attach(left: s.Node, strength: int, build: Callable[[s.Node], s.Node]) -> s.Node:
    """
    Return what *build* makes of *left*, or of its last part when *left* binds more loosely.

    The grammar reads ``a ? b : c.d`` as ``(a ? b : c).d``.
    """
    match left:
        case s.Lambda():
            return replace(left, body=_attach(left.body, strength, build))
        case s.Choice() if strength > _CHOICE:
            return replace(left, no=_attach(left.no, strength, build))
        case s.Binary() if strength > _STRENGTH[left.op]:
            return replace(left, right=_attach(left.right, strength, build))
        case s.Unary() if strength > _UNARY:
            return replace(left, of=_attach(left.of, strength, build))
    return build(left)


def _bare(value: Any) -> Any:
    """Return a tree without the parentheses."""
    if isinstance(value, _Parentheses):
        return _bare(value.of)
    if isinstance(value, tuple):
        return tuple(_bare(one) for one in value)
    if isinstance(value, s.Node):
        changed = {
            field.name: new
            for field in fields(value)
            if (new := _bare(old := getattr(value, field.name))) is not old and new != old
        }
        return replace(value, **changed) if changed else value
    return value


def _operation(node: TreeNode) -> s.Node:
    line = _line(node)
    parts = [_expression(part) for part in _named(node)]
    if node.type == "unary_expression":
        return s.Unary(line=line, op=_text(node.children[0]), of=parts[-1])
    if node.type == "ternary_expression":
        test, yes, no = parts
        return _attach(test, _CHOICE + 1, lambda at: s.Choice(line=line, test=at, yes=yes, no=no))
    op = _text(node.child_by_field_name("operator") or node.children[1])
    left, right = parts
    if op == "|":
        return s.OneOf(line=line, of=(left, right))
    return _attach(left, _STRENGTH[op], lambda at: s.Binary(line=line, op=op, left=at, right=right))


def _access(node: TreeNode) -> s.Node:
    parts, line = _named(node), _line(node)
    safe = any(child.type == ".?" or _text(child) in {"[?", ".?"} for child in node.children)

    def build(of: s.Node) -> s.Node:
        if node.type == "subscript_expression":
            return s.Index(line=line, of=of, at=_expression(parts[1]), safe=safe)
        at = parts[1].start_point[0] + 1
        if node.type == "resource_expression":
            return s.Nested(line=at, of=of, name=_text(parts[1]))
        return s.Member(line=at, of=of, name=_text(parts[1]), safe=safe)

    return _attach(_expression(parts[0]), _UNARY + 1, build)


def _call(node: TreeNode) -> s.Node:
    parts, line = _named(node), _line(node)
    args = tuple(_expression(part) for part in _named(parts[1]))

    def build(called: s.Node) -> s.Node:
        if isinstance(called, s.Name):
            return s.Call(line=line, name=called.name, of=None, args=args)
        if isinstance(called, s.Member):
            return s.Call(line=line, name=called.name, of=called.of, args=args)
        raise Unsupported(node)

    return _attach(_expression(parts[0]), _UNARY + 1, build)


def _object(node: TreeNode) -> s.Object:
    properties: list[s.Property] = []
    resources: list[s.Resource] = []
    decorators: tuple[s.Call, ...] = ()
    for child in _named(node):
        if child.type == "decorators":
            decorators = _decorators(child)
            continue
        parts = _named(child)
        if parts and parts[0].type == "resource_declaration":
            resources.append(_resource(parts[0], decorators))
        elif child.type == "resource_declaration":
            resources.append(_resource(child, decorators))
        elif child.type == "object_property":
            key, value = _key(child), _expression(parts[-1])
            properties.append(
                s.Property(line=_line(child), key=key, value=value, decorators=decorators)
            )
        else:
            raise Unsupported(child)
        decorators = ()
    return s.Object(line=_line(node), properties=tuple(properties), resources=tuple(resources))


def _key(node: TreeNode) -> str | s.Text:
    first = node.children[0]
    if first.type == "string":
        key = _quoted(first)
        return key if isinstance(key, s.Text) else str(key.value)
    return _text(first)


def _for(node: TreeNode) -> s.For:
    parts, line = _named(node), _line(node)
    names = [_text(one) for one in _named(parts[0])] or [_text(parts[0])]
    return s.For(
        line=line,
        item=names[0],
        index=names[1] if len(names) > 1 else None,
        source=_expression(parts[1]),
        body=_expression(parts[2]),
    )


def _quoted(node: TreeNode) -> s.Literal | s.Text:
    """Read a string: its parts are text, escapes and ``${…}``."""
    line, multiline = _line(node), node.children[0].type == "'''"
    parts: list[str | s.Node] = []
    for child in node.children[1:-1]:
        if child.type == "interpolation":
            parts.append(_expression(_named(child)[0]))
        else:
            text = _text(child)
            parts.append(text if multiline else _ESCAPE.sub(_unescaped, text))
    if all(isinstance(part, str) for part in parts):
        text = "".join(str(part) for part in parts)
        if multiline:
            text = text.removeprefix("\r").removeprefix("\n")
        return s.Literal(line=line, value=text)
    return s.Text(line=line, parts=tuple(parts))


def _unescaped(found: re.Match[str]) -> str:
    if found[2]:
        return chr(int(found[2], 16))
    return _ESCAPES.get(found[1], found[0])
