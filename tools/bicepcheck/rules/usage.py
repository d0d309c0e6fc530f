"""Rules of names: what nothing uses, what waits for itself, what is known too late."""

from __future__ import annotations

from collections.abc import Iterator

from tools.bicepcheck.problems import Report
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder
from tools.bicepcheck.types.infer import ALWAYS_KNOWN


def check(folder: Folder) -> None:
    """Check all files of a folder."""
    for file in folder.readable:
        _unused(file, folder.report)
        _cycles(file, folder.report)
        Early(file, folder.report).check()
    _unread(folder)


def _uses(node: s.Node) -> Iterator[str]:
    for one in s.walk(node):
        if isinstance(one, s.Name) or (isinstance(one, s.Call) and one.of is None):
            yield one.name


def _unused(file: File, report: Report) -> None:
    used: set[str] = set()
    for one in file.declarations:
        own = one.name if isinstance(one, s.Declaration) else None
        used.update(name for name in _uses(one) if name != own)
    for one in file.declarations:
        match one:
            case s.Import():
                names = [here for _, here in one.names] + ([one.wildcard] if one.wildcard else [])
                for name in names:
                    if name not in used:
                        report.add(file.name, one.line, "unused", f"nothing uses import '{name}'")
            case s.Param() | s.Var() | s.TypeOf() | s.Function() | s.Resource():
                exported = any(mark.name == "export" for mark in one.decorators)
                made = isinstance(one, s.Resource) and not one.existing
                if one.name not in used and not exported and not made:
                    report.add(file.name, one.line, "unused", f"nothing uses '{one.name}'")


def _unread(folder: Folder) -> None:
    """A member of an object type is there to be read, unless such objects are passed on whole."""
    members = [node for file in folder.readable for node in file.all(s.Member)]
    read = {node.name for node in members}
    within = {id(node.of) for node in members}
    for file in folder.readable:
        for one in file.all(s.TypeOf):
            unread = [
                member
                for member in (one.type.properties if isinstance(one.type, s.Object) else ())
                if member.key != "*" and member.key not in read
            ]
            if unread and not any(_whole(user, one, within) for user in folder.readable):
                for member in unread:
                    message = f"nothing reads '{member.key}' of {one.name}"
                    folder.report.add(file.name, member.line, "unused", message)


def _whole(file: File, kind: s.TypeOf, within: set[int]) -> bool:
    """Whether a value of a type is used otherwise than member by member, or within another type."""
    names = {here for here, found in file.symbols.items() if found is kind}
    typed = {one.name for one in file.all(s.Param) if names & set(_uses(one.type))}
    inner = any(one is not kind and names & set(_uses(one.type)) for one in file.all(s.TypeOf))
    return inner or any(node.name in typed and id(node) not in within for node in file.all(s.Name))


def _needs(one: s.Declaration) -> Iterator[str]:
    """Yield what a declaration waits for: a nested resource may name the one around it."""
    body = s.loop_parts(one.value)[2] if isinstance(one, s.Resource) else None
    inner = body.resources if isinstance(body, s.Object) else ()
    within = {id(node) for nested in inner for node in s.walk(nested)}
    for node in s.walk(one):
        if isinstance(node, s.Name | s.Call) and getattr(node, "of", None) is None:
            if id(node) in within and node.name == one.name:
                continue
            yield node.name


def _cycles(file: File, report: Report) -> None:
    needs = {
        one.name: {name for name in _needs(one) if name in file.symbols}
        for one in file.declarations
        if isinstance(one, s.Declaration) and not isinstance(one, s.Output)
    }
    for one in file.declarations:
        if isinstance(one, s.Declaration) and one.name in needs:
            seen: set[str] = set()
            todo = [*needs[one.name]]
            while todo:
                name = todo.pop()
                if name not in seen:
                    seen.add(name)
                    todo += needs.get(name, ())
            if one.name in seen:
                report.add(file.name, one.line, "cycle", f"'{one.name}' waits for itself")


class Early:
    """What must be known before anything is deployed: names, scopes, conditions, loops."""

    def __init__(self, file: File, report: Report) -> None:
        self.file = file
        self.report = report

    def check(self) -> None:
        for one in self.file.declarations:
            for node in s.walk(one):
                if isinstance(node, s.Resource | s.Module):
                    self._check(node)

    def _check(self, one: s.Resource | s.Module) -> None:
        loop, test, body = s.loop_parts(one.value)
        early = [part for part in (loop.source if loop else None, test) if part is not None]
        if isinstance(body, s.Object):
            keys = (
                ("name", "scope", "parent", "location")
                if isinstance(one, s.Resource)
                else ("name", "scope")
            )
            early += [
                member.value for key in keys if key != "location" and (member := body.get(key))
            ]
        for part in early:
            if late := self._late(part, set()):
                message = f"'{late}' is known only after it is deployed"
                self.report.add(self.file.name, part.line, "known-too-late", message)

    def _late(self, node: s.Node, seen: set[str]) -> str | None:
        """Return the name of a resource or module whose result *node* reads."""
        if isinstance(node, s.Member):
            owner = node.of
            while isinstance(owner, s.Index | s.Sure):
                owner = owner.of
            if isinstance(owner, s.Name):
                declared = self.file.symbols.get(owner.name)
                if isinstance(declared, s.Resource | s.Module) and node.name not in ALWAYS_KNOWN:
                    return owner.name
        if isinstance(node, s.Name) and node.name not in seen:
            declared = self.file.symbols.get(node.name)
            if isinstance(declared, s.Var):
                return self._late(declared.value, {*seen, node.name})
        if isinstance(node, s.Call) and node.name == "reference":
            return "reference()"
        for child in s.children(node):
            if late := self._late(child, seen):
                return late
        return None
