"""Operators and members of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.bicepcheck.evaluation.functions import equal, is_true
from tools.bicepcheck.evaluation.values import Deployed, Made, Outputs, Ref, known


def member(of: Any, name: str) -> Any:
    """Return a member of a value."""
    match of:
        case None:
            return None
        case Mapping():
            return of.get(name)
        case Outputs():
            return Outputs(of.read) if name == "outputs" else of.read(name)
        case Deployed():
            if name == "name":
                return of.name
            found = of.body.get(name) if not of.existing else None
            if isinstance(found, Mapping):
                return _Reading(of, (name,), found)
            return found if found is not None and known(found) else Ref(of, (name,))
        case _Reading():
            found = of.found.get(name)
            path = (*of.path, name)
            if isinstance(found, Mapping):
                return _Reading(of.of, path, found)
            return found if found is not None else Ref(of.of, path)
        case Ref():
            return Ref(of.of, (*of.path, name))
        case Made():
            return Made(f"{of.function}.{name}", of.args)
    return Made("unknown", (name,))


class _Reading:
    """The way to a member of a resource, of which the template sets some members itself."""

    def __init__(self, of: Deployed, path: tuple[str, ...], found: Mapping[str, Any]) -> None:
        self.of, self.path, self.found = of, path, found


def index(of: Any, at: Any) -> Any:
    """Return an item of a value."""
    if isinstance(of, list) and isinstance(at, int):
        return of[at] if -1 < at < len(of) else Made("none", (at,))
    return member(of, at) if isinstance(at, str) else Made("item", ())


def unary(op: str, value: Any) -> Any:
    """Return what an operator makes of one value."""
    if op == "!":
        truth = is_true(value)
        return Made("!", ()) if truth is None else not truth
    return -value if isinstance(value, int) else Made(op, ())


def binary(op: str, left: Any, right: Any) -> Any:
    """Return what an operator makes of two values."""
    if op == "??":
        return right if left is None else left
    if op in {"&&", "||"}:
        truths = {is_true(left), is_true(right)}
        ends = op == "||"  # the truth that decides alone
        if ends in truths:
            return ends
        return Made(op, ()) if None in truths else not ends
    if op in {"==", "!=", "=~", "!~"}:
        same = equal(left, right, ignore_case="~" in op)
        return Made(op, ()) if same is None else same == (op in {"==", "=~"})
    return _arithmetic(op, left, right) if known(left) and known(right) else Made(op, ())


def _arithmetic(op: str, left: Any, right: Any) -> Any:
    """Return what an operator makes of two known values."""
    try:
        match op:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left // right
            case "%":
                return left % right
            case "<":
                return left < right
            case "<=":
                return left <= right
            case ">":
                return left > right
            case ">=":
                return left >= right
    except (TypeError, ZeroDivisionError):
        pass
    return Made(op, ())
