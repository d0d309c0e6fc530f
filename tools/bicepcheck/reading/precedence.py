"""Operator precedence, which corrects trees that the grammar builds wrongly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from tools.bicepcheck.reading import nodes as s

TERNARY = 1
PRECEDENCE = {
    "??": 2,
    "||": 3,
    "&&": 4,
    **dict.fromkeys(("==", "!=", "=~", "!~"), 5),
    **dict.fromkeys(("<", "<=", ">", ">="), 6),
    **dict.fromkeys(("+", "-"), 7),
    **dict.fromkeys(("*", "/", "%"), 8),
}
UNARY = 9
POSTFIX = 10


def attach(left: s.Node, precedence: int, build: Callable[[s.Node], s.Node]) -> s.Node:
    """
    Apply *build* to *left*, or to its last operand when *left* binds more loosely.

    The grammar reads ``a ? b : c.d`` as ``(a ? b : c).d``.
    """
    match left:
        case s.Lambda():
            return replace(left, body=attach(left.body, precedence, build))
        case s.Ternary() if precedence > TERNARY:
            return replace(left, no=attach(left.no, precedence, build))
        case s.Binary() if precedence > PRECEDENCE[left.op]:
            return replace(left, right=attach(left.right, precedence, build))
        case s.Unary() if precedence > UNARY:
            return replace(left, of=attach(left.of, precedence, build))
    return build(left)


def without_parentheses(value: Any) -> Any:
    """Return a tree without the nodes of parentheses, which only keep operands together."""
    if isinstance(value, s.Parentheses):
        return without_parentheses(value.of)
    if isinstance(value, tuple):
        return tuple(without_parentheses(one) for one in value)
    if isinstance(value, s.Node):
        old = {field.name: getattr(value, field.name) for field in fields(value)}
        new = {name: without_parentheses(one) for name, one in old.items()}
        return replace(value, **new) if new != old else value
    return value
