"""How tightly operators bind: the grammar's mistakes about it are mended here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from tools.bicepcheck.reading import nodes as s

CHOICE = 1
STRENGTH = {
    "??": 2,
    "||": 3,
    "&&": 4,
    **dict.fromkeys(("==", "!=", "=~", "!~"), 5),
    **dict.fromkeys(("<", "<=", ">", ">="), 6),
    **dict.fromkeys(("+", "-"), 7),
    **dict.fromkeys(("*", "/", "%"), 8),
}
UNARY = 9
"""How tightly operators bind."""


def attach(left: s.Node, strength: int, build: Callable[[s.Node], s.Node]) -> s.Node:
    """
    Return what *build* makes of *left*, or of its last part when *left* binds more loosely.

    The grammar reads ``a ? b : c.d`` as ``(a ? b : c).d``.
    """
    match left:
        case s.Lambda():
            return replace(left, body=attach(left.body, strength, build))
        case s.Choice() if strength > CHOICE:
            return replace(left, no=attach(left.no, strength, build))
        case s.Binary() if strength > STRENGTH[left.op]:
            return replace(left, right=attach(left.right, strength, build))
        case s.Unary() if strength > UNARY:
            return replace(left, of=attach(left.of, strength, build))
    return build(left)


def bare(value: Any) -> Any:
    """Return a tree without the parentheses."""
    if isinstance(value, s.Parentheses):
        return bare(value.of)
    if isinstance(value, tuple):
        return tuple(bare(one) for one in value)
    if isinstance(value, s.Node):
        changed = {
            field.name: new
            for field in fields(value)
            if (new := bare(old := getattr(value, field.name))) is not old and new != old
        }
        return replace(value, **changed) if changed else value
    return value
