"""Rules about inverted conditions."""

from __future__ import annotations

from collections.abc import Iterator

from tools.bicepcheck.problems import Problem
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import Folder


def check(folder: Folder) -> Iterator[Problem]:
    """Check all conditions of a folder."""
    for file in folder.readable:
        for ternary in file.all(s.Ternary):
            if _ternary_is_inverted(ternary):
                message = (
                    "the value is used where it is empty, not where it is set: swap the branches"
                )
                yield file.problem(ternary, "condition", message)


def _ternary_is_inverted(node: s.Ternary) -> bool:
    """Return whether only the branch for "empty" uses the value that may be empty."""
    for value, when in _empty_tests(node.test):
        empty, set_ = (node.yes, node.no) if when else (node.no, node.yes)
        if _mentions(empty, value) and not _mentions(set_, value):
            return True
    return False


def _empty_tests(test: s.Node, *, when: bool = True) -> Iterator[tuple[s.Node, bool]]:
    """Yield a value that a test compares with empty, and whether it is empty if the test holds."""
    match test:
        case s.Unary(op="!"):
            yield from _empty_tests(test.of, when=not when)
        case s.Invocation(name="empty", args=(arg,)):
            yield arg, when
        case s.Binary(op="==" | "!=", right=s.Literal(value="" | 0 | None | False)):
            yield test.left, when == (test.op == "==")


def _path(node: s.Node) -> tuple[str, ...] | None:
    if isinstance(node, s.Name):
        return (node.name,)
    if isinstance(node, s.Member) and (of := _path(node.of)):
        return (*of, node.name)
    return None


def _mentions(node: s.Node, value: s.Node) -> bool:
    path = _path(value)
    return path is not None and any(_path(one) == path for one in node.tree)
