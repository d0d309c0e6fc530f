"""Rules about names: types that are not declared, what nothing uses, what is known too late."""

from __future__ import annotations

from collections.abc import Iterator

from tools.bicepcheck.evaluation.shapes import declared
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder

_KNOWN_BEFOREHAND = frozenset({"id", "name", "type", "apiVersion"})
"""Members of a resource that are known before it is deployed."""


def check(folder: Folder) -> Iterator[Problem]:
    """Check all files of a folder."""
    for file in folder.readable:
        yield from _unknown_types(file)
        yield from _unused(file)
        yield from _known_too_late(file)


def _unknown_types(file: File) -> Iterator[Problem]:
    for one in file.declarations:
        kind = getattr(one, "type", None)
        if isinstance(kind, s.Node):
            try:
                declared(kind, file)
            except LookupError as error:
                yield file.problem(one, "unknown-type", str(error))


def _references(node: s.Node) -> Iterator[s.Name | s.Invocation]:
    """Yield the nodes that use a declaration."""
    for one in node.tree:
        if isinstance(one, s.Name) or (isinstance(one, s.Invocation) and one.of is None):
            yield one


def _names(node: s.Node) -> set[str]:
    return {one.name for one in _references(node)}


def _unused(file: File) -> Iterator[Problem]:
    used: set[str] = set()
    lines = file.text.splitlines()
    for one in file.declarations:
        used |= _names(one) - {one.name if isinstance(one, s.Declaration) else ""}
    for one in file.declarations:
        match one:
            case s.Import():
                for name in [*(here for _, here in one.names), one.wildcard]:
                    if name and name not in used:
                        message = f"nothing uses the import '{name}'; delete it"
                        yield file.problem(one, "unused", message)
            case s.Param() | s.Var() | s.TypeAlias() | s.ResourceDeclaration():
                deploys = isinstance(one, s.ResourceDeclaration) and not one.existing
                silenced = "#disable-next-line no-unused" in ["", *lines][one.line - 1]
                if not (one.name in used or one.has("export") or deploys or silenced):
                    message = f"nothing uses '{one.name}'; delete it"
                    yield file.problem(one, "unused", message)


def reachable(name: str, needs: dict[str, set[str]]) -> set[str]:
    """Return everything that *name* needs, directly or not."""
    seen: set[str] = set()
    todo = [*needs.get(name, ())]
    while todo:
        if (found := todo.pop()) not in seen:
            seen.add(found)
            todo += needs.get(found, ())
    return seen


def _known_too_late(file: File) -> Iterator[Problem]:
    """Names, scopes, conditions and loops must be known before anything is deployed."""
    for one in file.all(s.Deployable):
        keys = (
            ("name", "scope", "parent")
            if isinstance(one, s.ResourceDeclaration)
            else ("name", "scope")
        )
        members = [member.value for key in keys if (member := one.property(key))]
        for part in (one.loop and one.loop.source, one.test, *members):
            if part is not None and (late := _late(file, part, frozenset())):
                message = f"'{late}' is known only after deployment, too late for this place"
                yield file.problem(part, "known-too-late", message)


def _late(file: File, node: s.Node, seen: frozenset[str]) -> str | None:
    """Return the name of a resource or module whose result *node* reads."""
    if isinstance(node, s.Member):
        owner = node.of
        while isinstance(owner, s.Index):
            owner = owner.of
        declared = file.symbols.get(owner.name) if isinstance(owner, s.Name) else None
        if isinstance(declared, s.Deployable) and node.name not in _KNOWN_BEFOREHAND:
            return declared.name
    if isinstance(node, s.Name) and node.name not in seen:
        declared = file.symbols.get(node.name)
        if isinstance(declared, s.Var):
            return _late(file, declared.value, seen | {node.name})
    return next(filter(None, (_late(file, child, seen) for child in node.children)), None)
