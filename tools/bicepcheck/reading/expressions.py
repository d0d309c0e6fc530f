"""Converts expressions and types from the parser's nodes to syntax-tree nodes."""

from __future__ import annotations

import re
from typing import Any

import tree_sitter

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.precedence import POSTFIX, PRECEDENCE, TERNARY, attach

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "'": "'", "\\": "\\", "$": "$"}
_ESCAPE = re.compile(r"\\(u\{([0-9a-fA-F]+)\}|.)", re.DOTALL)
_VALID_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]+\}|[nrt'\\$])")
COMMENTS = frozenset({"comment", "diagnostic_comment"})

TreeNode = tree_sitter.Node
Fault = tuple[int, str]
"""A line and a message."""


class Unsupported(Exception):
    """A node that the checker does not know."""

    def __init__(self, node: TreeNode) -> None:
        super().__init__(node.type)
        message = f"syntax that this checker does not read: {node.type} {text_of(node)[:40]!r}"
        self.fault: Fault = (line_of(node), message)


def line_of(node: TreeNode) -> int:
    """Return the line of a node, from 1."""
    return node.start_point[0] + 1


def text_of(node: TreeNode) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode()


def named(node: TreeNode) -> list[TreeNode]:
    """Return the children of a node that are neither punctuation nor comments."""
    return [child for child in node.named_children if child.type not in COMMENTS]


def decorators_of(node: TreeNode) -> tuple[s.Call, ...]:
    """Return the calls behind `@`."""
    found = []
    for child in named(node):
        call = expression(named(child)[0])
        if not isinstance(call, s.Call):
            raise Unsupported(child)
        found.append(call)
    return tuple(found)


def resource(node: TreeNode, decorators: tuple[s.Call, ...]) -> s.Resource:
    """Return the declaration of a resource."""
    name, kind, value = named(node)[:3]
    return s.Resource(
        line=line_of(node),
        decorators=decorators,
        name=text_of(name),
        type=string(kind),
        existing=any(child.type == "existing" for child in node.children),
        value=expression(value),
    )


def string(node: TreeNode) -> str:
    """Return a string without interpolation."""
    value = expression(node)
    if not isinstance(value, s.Literal) or not isinstance(value.value, str):
        raise Unsupported(node)
    return value.value


def expression(node: TreeNode, head: s.Node | None = None) -> s.Node:
    """
    Return a value, or a type.

    *head* is the expression directly before *node*: in a list, the grammar takes ``f(x)`` for
    ``f`` and ``(x)``.
    """
    line, parts = line_of(node), named(node)
    if head is not None and node.type == "parenthesized_expression":
        return _call(node, head, tuple(expression(part) for part in parts))
    if head is not None and node.type == "array":
        return s.Index(line=line, of=head, at=expression(parts[0]))
    after = node.next_sibling
    if after is not None and after.type == "!":
        return attach(_expression(node, head), POSTFIX, lambda at: s.NonNull(line=line, of=at))
    return _expression(node, head)


_WRAPPERS: dict[str, Any] = {
    "parenthesized_expression": s.Parentheses,
    "nullable_type": s.NullableType,
    "array_type": s.ArrayType,
}


def _expression(node: TreeNode, head: s.Node | None) -> s.Node:
    line, parts = line_of(node), named(node)
    match node.type:
        case "string":
            return _string(node)
        case "number":
            return s.Literal(line=line, value=int(text_of(node)))
        case "boolean" | "null":
            return s.Literal(line=line, value={"true": True, "false": False}.get(text_of(node)))
        case "identifier" | "primitive_type" | "compatible_identifier":
            return s.Name(line=line, name=text_of(node))
        case "type" | "parenthesized_type":
            return expression(parts[0])
        case "parenthesized_expression" | "nullable_type" | "array_type":
            return _WRAPPERS[node.type](line=line, of=expression(parts[0]))  # type: ignore[no-any-return]
        case "union_type":
            return s.UnionType(line=line, of=tuple(expression(part) for part in parts))
        case "member_expression" | "subscript_expression" | "resource_expression":
            return _access(node, head)
        case "call_expression":
            args = tuple(expression(part) for part in named(parts[1]))
            return attach(expression(parts[0], head), POSTFIX, lambda at: _call(node, at, args))
        case "unary_expression" | "binary_expression" | "ternary_expression":
            return _operation(node, head)
        case "lambda_expression":
            names = tuple(text_of(one) for one in (named(parts[0]) or parts[:1]))
            return s.Lambda(line=line, params=names, body=expression(parts[1]))
        case "array":
            return s.Array(line=line, items=tuple(_items(parts)))
        case "object":
            return _object(node)
        case "for_statement":
            names = tuple(text_of(one) for one in (named(parts[0]) or parts[:1]))
            return s.For(
                line=line,
                item=names[0],
                index=names[1] if len(names) > 1 else None,
                source=expression(parts[1]),
                body=expression(parts[2]),
            )
        case "if_statement":
            return s.If(line=line, test=expression(parts[0]), body=expression(parts[1]))
    raise Unsupported(node)


def _operation(node: TreeNode, head: s.Node | None) -> s.Node:
    line = line_of(node)
    if node.type == "unary_expression" and text_of(node).startswith("!!!"):
        for _ in range(3):
            node = named(node)[0]
        return s.Spread(line=line, of=expression(node))
    first, *others = named(node)
    left, *right = [expression(first, head), *(expression(part) for part in others)]
    if node.type == "unary_expression":
        return s.Unary(line=line, op=text_of(node.children[0]), of=left)
    if node.type == "ternary_expression":
        yes, no = right
        return attach(left, TERNARY + 1, lambda at: s.Ternary(line=line, test=at, yes=yes, no=no))
    op = text_of(node.child_by_field_name("operator") or node.children[1])
    if op == "|":
        return s.UnionType(line=line, of=(left, *right))
    return attach(
        left, PRECEDENCE[op], lambda at: s.Binary(line=line, op=op, left=at, right=right[0])
    )


def _access(node: TreeNode, head: s.Node | None) -> s.Node:
    parts = named(node)
    safe = any(child.type == ".?" or text_of(child) in {"[?", ".?"} for child in node.children)

    def build(of: s.Node) -> s.Node:
        if node.type == "subscript_expression":
            return s.Index(line=line_of(node), of=of, at=expression(parts[1]), safe=safe)
        line, name = line_of(parts[1]), text_of(parts[1])
        if node.type == "resource_expression":
            return s.NestedAccess(line=line, of=of, name=name)
        return s.Member(line=line, of=of, name=name, safe=safe)

    return attach(expression(parts[0], head), POSTFIX, build)


def _call(node: TreeNode, called: s.Node, args: tuple[s.Node, ...]) -> s.Node:
    if not isinstance(called, s.Name | s.Member):
        raise Unsupported(node)
    of = called.of if isinstance(called, s.Member) else None
    return s.Call(line=line_of(node), name=called.name, of=of, args=args)


def continues(before: TreeNode, node: TreeNode) -> bool:
    """Return whether *node*, in a list, continues the item *before*: ``f`` and ``(x)``."""
    return before.end_byte == node.start_byte and text_of(node)[:1] in {"(", "["}


def _items(parts: list[TreeNode]) -> list[s.Node]:
    items: list[s.Node] = []
    for at, part in enumerate(parts):
        joined = at and continues(parts[at - 1], part)
        items.append(expression(part, items.pop() if joined else None))
    return items


def _object(node: TreeNode) -> s.Object:
    properties: list[s.Property] = []
    resources: list[s.Resource] = []
    decorators: tuple[s.Call, ...] = ()
    for child in named(node):
        if child.type == "decorators":
            decorators = decorators_of(child)
            continue
        parts = named(child)
        nested = [one for one in (child, *parts[:1]) if one.type == "resource_declaration"]
        if nested:
            resources.append(resource(nested[0], decorators))
        elif child.type == "object_property":
            value = expression(parts[-1])
            properties.append(
                s.Property(line=line_of(child), key=_key(child), value=value, decorators=decorators)
            )
        else:
            raise Unsupported(child)
        decorators = ()
    return s.Object(line=line_of(node), properties=tuple(properties), resources=tuple(resources))


def _key(node: TreeNode) -> str | s.Interpolation:
    first = node.children[0]
    if first.type != "string":
        return text_of(first)
    key = _string(first)
    return key if isinstance(key, s.Interpolation) else str(key.value)


def _string(node: TreeNode) -> s.Literal | s.Interpolation:
    """Read a string, which consists of text, escapes and ``${…}``."""
    line, multiline = line_of(node), node.children[0].type == "'''"
    rest = text_of(node)
    parts: list[str | s.Node] = []
    for child in node.children[1:-1]:
        text = text_of(child)
        if child.type == "interpolation":
            rest = rest.replace(text, "", 1)
            parts.append(expression(named(child)[0]))
        else:
            parts.append(text if multiline else _ESCAPE.sub(_unescaped, text))
    if not multiline and "\\" in _VALID_ESCAPE.sub("", rest):
        raise Unsupported(node)
    if not all(isinstance(part, str) for part in parts):
        return s.Interpolation(line=line, parts=tuple(parts))
    text = "".join(map(str, parts))
    if multiline:
        text = text.removeprefix("\r").removeprefix("\n")
    return s.Literal(line=line, value=text)


def _unescaped(found: re.Match[str]) -> str:
    if found[2]:
        return chr(int(found[2], 16))
    return _ESCAPES.get(found[1], found[0])
