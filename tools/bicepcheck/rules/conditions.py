"""Conditions the wrong way round, and places that only a parameter may name."""

from __future__ import annotations

from collections.abc import Iterator

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder


def check(folder: Folder) -> None:
    """Check all conditions and locations of a folder."""
    for file in folder.readable:
        for declaration in file.declarations:
            for node in s.walk(declaration):
                if isinstance(node, s.Choice):
                    _choice(file, node, folder)
                elif isinstance(node, s.Resource | s.Module):
                    _condition(file, node, folder)
            if not isinstance(declaration, s.Param):
                _location(file, declaration, folder)


def _empties(test: s.Node, *, when: bool = True) -> Iterator[tuple[s.Node, bool]]:
    """Yield what a test asks to be empty, and whether it is when the test holds."""
    match test:
        case s.Unary(op="!"):
            yield from _empties(test.of, when=not when)
        case s.Call(name="empty", args=(arg,)):
            yield arg, when
        case s.Binary(op="==" | "!=", right=s.Literal(value="" | 0 | None | False)):
            yield test.left, when == (test.op == "==")


def _choice(file: File, node: s.Choice, folder: Folder) -> None:
    """The branch for "nothing there" has no use for it; the other one has."""
    for asked, when in _empties(node.test):
        nothing, something = (node.yes, node.no) if when else (node.no, node.yes)
        if _mentions(nothing, asked) and not _mentions(something, asked):
            message = "used where it is empty, and not where it is given: the wrong way round"
            folder.report.add(file.name, node.line, "condition", message)


def _condition(file: File, node: s.Resource | s.Module, folder: Folder) -> None:
    """What is made only when something is empty has no use for it."""
    _, test, body = s.loop_parts(node.value)
    if test is None:
        return
    for part in _all_of(test):
        for asked, when in _empties(part):
            if when and _mentions(body, asked):
                message = f"'{node.name}' is made when what it uses is empty: the wrong way round"
                folder.report.add(file.name, node.line, "condition", message)


def _all_of(test: s.Node) -> Iterator[s.Node]:
    if isinstance(test, s.Binary) and test.op == "&&":
        yield from _all_of(test.left)
        yield from _all_of(test.right)
    else:
        yield test


def _path(node: s.Node) -> tuple[str, ...] | None:
    if isinstance(node, s.Name):
        return (node.name,)
    if isinstance(node, s.Member) and (of := _path(node.of)):
        return (*of, node.name)
    return None


def _mentions(node: s.Node, asked: s.Node) -> bool:
    path = _path(asked)
    return path is not None and any(_path(one) == path for one in s.walk(node))


def _location(file: File, declaration: s.Node, folder: Folder) -> None:
    for node in s.walk(declaration):
        match node:
            case s.Member(name="location", of=s.Call(name="resourceGroup" | "deployment")):
                message = "the location is a parameter's; its default may say this"
                folder.report.add(file.name, node.line, "location", message)
