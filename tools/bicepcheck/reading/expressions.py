"""Expressions and types of a file, from the parser's nodes to ours."""

from __future__ import annotations

import re

import tree_sitter

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.precedence import CHOICE, STRENGTH, UNARY, attach

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "'": "'", "\\": "\\", "$": "$"}
_ESCAPE = re.compile(r"\\(u\{([0-9a-fA-F]+)\}|.)", re.DOTALL)
_KNOWN_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]+\}|[nrt'\\$])")
COMMENTS = frozenset({"comment", "diagnostic_comment"})

TreeNode = tree_sitter.Node


class Unsupported(Exception):
    """A node that this check does not know."""

    def __init__(self, node: TreeNode) -> None:
        super().__init__(node.type)
        self.fault = (line_of(node), f"not understood: {node.type} {text_of(node)[:40]!r}")


def line_of(node: TreeNode) -> int:
    """Return the line of a node, from 1."""
    return node.start_point[0] + 1


def text_of(node: TreeNode) -> str:
    """Return a node as it is written."""
    return (node.text or b"").decode()


def named(node: TreeNode) -> list[TreeNode]:
    """Return the parts of a node that are not mere signs or comments."""
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
    parts = named(node)
    return s.Resource(
        line=line_of(node),
        decorators=decorators,
        name=text_of(parts[0]),
        type=string(parts[1]),
        existing=any(child.type == "existing" for child in node.children),
        value=expression(parts[2]),
    )


def string(node: TreeNode) -> str:
    """Return a string that holds no expression."""
    value = expression(node)
    if not isinstance(value, s.Literal) or not isinstance(value.value, str):
        raise Unsupported(node)
    return value.value


def expression(node: TreeNode, head: s.Node | None = None) -> s.Node:
    """
    Return a value, or a type.

    *head* is what stands directly before *node*: in a list, the grammar takes ``f(x)`` for ``f``
    and ``(x)``.
    """
    line, parts = line_of(node), named(node)
    if head is not None and node.type == "parenthesized_expression":
        return _called(node, head, tuple(expression(part) for part in parts))
    if head is not None and node.type == "array":
        return s.Index(line=line, of=head, at=expression(parts[0]))
    after = node.next_sibling
    if after is not None and after.type == "!":
        found = _expression(node, head)
        return attach(found, UNARY + 1, lambda at: s.Sure(line=line, of=at))
    return _expression(node, head)


def _expression(node: TreeNode, head: s.Node | None) -> s.Node:
    line, parts = line_of(node), named(node)
    match node.type:
        case "string":
            return _quoted(node)
        case "number":
            return s.Literal(line=line, value=int(text_of(node)))
        case "boolean":
            return s.Literal(line=line, value=text_of(node) == "true")
        case "null":
            return s.Literal(line=line, value=None)
        case "identifier" | "primitive_type" | "compatible_identifier":
            return s.Name(line=line, name=text_of(node))
        case "type" | "parenthesized_type":
            return expression(parts[0])
        case "parenthesized_expression":
            return s.Parentheses(line=line, of=expression(parts[0]))
        case "nullable_type":
            return s.Nullable(line=line, of=expression(parts[0]))
        case "array_type":
            return s.ArrayOf(line=line, of=expression(parts[0]))
        case "union_type":
            return s.OneOf(line=line, of=tuple(expression(part) for part in parts))
        case "member_expression" | "subscript_expression" | "resource_expression":
            return _access(node, head)
        case "call_expression":
            args = tuple(expression(part) for part in named(parts[1]))
            called = expression(parts[0], head)
            return attach(called, UNARY + 1, lambda at: _called(node, at, args))
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
            return _for(node)
        case "if_statement":
            return s.If(line=line, test=expression(parts[0]), body=expression(parts[1]))
    raise Unsupported(node)


def _operation(node: TreeNode, head: s.Node | None) -> s.Node:
    line = line_of(node)
    if node.type == "unary_expression" and text_of(node).startswith("!!!"):
        return s.Spread(line=line, of=expression(_innermost(node)))
    first, *others = named(node)
    parts = [expression(first, head), *(expression(part) for part in others)]
    if node.type == "unary_expression":
        return s.Unary(line=line, op=text_of(node.children[0]), of=parts[-1])
    if node.type == "ternary_expression":
        test, yes, no = parts
        return attach(test, CHOICE + 1, lambda at: s.Choice(line=line, test=at, yes=yes, no=no))
    op = text_of(node.child_by_field_name("operator") or node.children[1])
    left, right = parts
    if op == "|":
        return s.OneOf(line=line, of=(left, right))
    return attach(left, STRENGTH[op], lambda at: s.Binary(line=line, op=op, left=at, right=right))


def _innermost(node: TreeNode) -> TreeNode:
    """Return what stands behind the three signs of a spread."""
    for _ in range(3):
        node = named(node)[0]
    return node


def _access(node: TreeNode, head: s.Node | None) -> s.Node:
    parts, line = named(node), line_of(node)
    safe = any(child.type == ".?" or text_of(child) in {"[?", ".?"} for child in node.children)

    def build(of: s.Node) -> s.Node:
        if node.type == "subscript_expression":
            return s.Index(line=line, of=of, at=expression(parts[1]), safe=safe)
        at = parts[1].start_point[0] + 1
        if node.type == "resource_expression":
            return s.Nested(line=at, of=of, name=text_of(parts[1]))
        return s.Member(line=at, of=of, name=text_of(parts[1]), safe=safe)

    return attach(expression(parts[0], head), UNARY + 1, build)


def _called(node: TreeNode, called: s.Node, args: tuple[s.Node, ...]) -> s.Node:
    line = line_of(node)
    if isinstance(called, s.Name):
        return s.Call(line=line, name=called.name, of=None, args=args)
    if isinstance(called, s.Member):
        return s.Call(line=line, name=called.name, of=called.of, args=args)
    raise Unsupported(node)


def continues(before: TreeNode, node: TreeNode) -> bool:
    """Whether *node*, in a list, goes on with what *before* begins: ``f`` and ``(x)``."""
    return before.end_byte == node.start_byte and text_of(node)[:1] in {"(", "["}


def _items(parts: list[TreeNode]) -> list[s.Node]:
    items: list[s.Node] = []
    for at, part in enumerate(parts):
        if at and continues(parts[at - 1], part):
            items.append(expression(part, items.pop()))
        else:
            items.append(expression(part))
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
        if parts and parts[0].type == "resource_declaration":
            resources.append(resource(parts[0], decorators))
        elif child.type == "resource_declaration":
            resources.append(resource(child, decorators))
        elif child.type == "object_property":
            key, value = _key(child), expression(parts[-1])
            properties.append(
                s.Property(line=line_of(child), key=key, value=value, decorators=decorators)
            )
        else:
            raise Unsupported(child)
        decorators = ()
    return s.Object(line=line_of(node), properties=tuple(properties), resources=tuple(resources))


def _key(node: TreeNode) -> str | s.Text:
    first = node.children[0]
    if first.type == "string":
        key = _quoted(first)
        return key if isinstance(key, s.Text) else str(key.value)
    return text_of(first)


def _for(node: TreeNode) -> s.For:
    parts, line = named(node), line_of(node)
    names = [text_of(one) for one in named(parts[0])] or [text_of(parts[0])]
    return s.For(
        line=line,
        item=names[0],
        index=names[1] if len(names) > 1 else None,
        source=expression(parts[1]),
        body=expression(parts[2]),
    )


def _quoted(node: TreeNode) -> s.Literal | s.Text:
    """Read a string: its parts are text, escapes and ``${…}``."""
    line, multiline = line_of(node), node.children[0].type == "'''"
    if not multiline:
        _escapes(node)
    parts: list[str | s.Node] = []
    for child in node.children[1:-1]:
        if child.type == "interpolation":
            parts.append(expression(named(child)[0]))
        else:
            text = text_of(child)
            parts.append(text if multiline else _ESCAPE.sub(_unescaped, text))
    if all(isinstance(part, str) for part in parts):
        text = "".join(str(part) for part in parts)
        if multiline:
            text = text.removeprefix("\r").removeprefix("\n")
        return s.Literal(line=line, value=text)
    return s.Text(line=line, parts=tuple(parts))


def _escapes(node: TreeNode) -> None:
    text = text_of(node)
    for child in node.children:
        if child.type == "interpolation":
            text = text.replace(text_of(child), "", 1)
    if "\\" in _KNOWN_ESCAPE.sub("", text):
        raise Unsupported(node)


def _unescaped(found: re.Match[str]) -> str:
    if found[2]:
        return chr(int(found[2], 16))
    return _ESCAPES.get(found[1], found[0])
