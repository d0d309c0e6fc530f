"""Operators, and access to members of values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from tools.bicepcheck.evaluation.functions import equal, truth
from tools.bicepcheck.evaluation.values import Computed, Deployed, ModuleOutputs, Ref, is_known


class _Partial:
    """A member of a resource whose members the template sets in part."""

    def __init__(self, of: Deployed, path: tuple[str, ...], found: Mapping[str, Any]) -> None:
        self.of, self.path, self.found = of, path, found


def member(of: Any, name: str) -> Any:
    """Return a member of a value."""
    match of:
        case None:
            return None
        case dict():
            return of.get(name)
        case ModuleOutputs():
            return of if name == "outputs" else of.read(name)
        case Deployed():
            if name == "name":
                return of.name
            found = of.body.get(name) if not of.existing else None
            if isinstance(found, dict):
                return _Partial(of, (name,), found)
            return found if found is not None and is_known(found) else Ref(of, (name,))
        case _Partial():
            found, path = of.found.get(name), (*of.path, name)
            if isinstance(found, dict):
                return _Partial(of.of, path, found)
            return found if found is not None else Ref(of.of, path)
        case Ref():
            return Ref(of.of, (*of.path, name))
        case Computed():
            return Computed(f"{of.function}.{name}", of.args)
    return Computed("unknown", (name,))


def index(of: Any, at: Any) -> Any:
    """Return an item of a value."""
    if isinstance(of, list) and isinstance(at, int):
        return of[at] if -1 < at < len(of) else Computed("none", (at,))
    return member(of, at) if isinstance(at, str) else Computed("item", ())


def unary(op: str, value: Any) -> Any:
    """Return the result of an operator on one value."""
    if op == "!" and isinstance(value, bool):
        return not value
    return -value if op == "-" and isinstance(value, int) else Computed(op, ())


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def operands(op: str, left: str | None, right: str | None) -> str | None:
    """Return why an operator does not take values of two kinds; ``None``: it may."""
    known = {left, right} - {None}
    if op in {"&&", "||"}:
        allowed = [{"bool"}]
    elif op in _ARITHMETIC:
        allowed = [{"int"}, {"string"}] if op in {"<", "<=", ">", ">="} else [{"int"}]
    else:
        return None
    fits = any(known <= one for one in allowed)
    return None if fits else f"{op} does not take {' and '.join(sorted(map(str, known)))}"


def binary(op: str, left: Any, right: Any) -> Any:
    """Return the result of an operator on two values."""
    if op == "??":
        return right if left is None else left
    if op in {"&&", "||"}:
        truths = {truth(left), truth(right)}
        decisive = op == "||"  # the truth that decides alone
        if decisive in truths:
            return decisive
        return Computed(op, ()) if None in truths else not decisive
    if op in {"==", "!=", "=~", "!~"}:
        same = equal(left, right, ignore_case="~" in op)
        return Computed(op, ()) if same is None else same == (op in {"==", "=~"})
    if is_known(left) and is_known(right):
        try:
            return _ARITHMETIC[op](left, right)
        except (TypeError, ZeroDivisionError):
            pass  # the type check reports it
    return Computed(op, ())
