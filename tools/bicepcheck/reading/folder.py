"""A folder of templates: its files, and what each name in them stands for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tools.bicepcheck.problems import Report
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.parse import Unreadable, parse

Kind = TypeVar("Kind", bound=s.Node)
SCOPES = ("resourceGroup", "subscription", "managementGroup", "tenant")


@dataclass(slots=True, kw_only=True)
class File:
    """One template; *name* as seen from the folder, *symbols* by name, imported ones included."""

    path: Path
    name: str
    declarations: tuple[s.Node, ...]
    symbols: dict[str, s.Declaration] = field(default_factory=dict)
    origin: dict[str, File] = field(default_factory=dict)
    wildcards: dict[str, File] = field(default_factory=dict)
    scope: str = "resourceGroup"
    _nodes: tuple[s.Node, ...] = ()

    @property
    def nodes(self) -> tuple[s.Node, ...]:
        """Return all nodes of the file, outer ones first."""
        if not self._nodes:
            self._nodes = tuple(node for one in self.declarations for node in s.walk(one))
        return self._nodes

    def all(self, kind: type[Kind]) -> Iterator[Kind]:
        """Yield the nodes of a kind, nested ones included."""
        return (node for node in self.nodes if isinstance(node, kind))

    def sibling(self, path: str) -> Path:
        """Return the path of a file that is named from this one."""
        return (self.path.parent / path).resolve()


class Folder:
    """All files that `main.bicep` leads to."""

    def __init__(self, root: Path, report: Report) -> None:
        self.root = root.resolve()
        self.report = report
        self.files: dict[Path, File | None] = {}
        self._open: list[Path] = []  # what is being read: each leads to the next
        self.main = self.load(self.root / "main.bicep", None, 1)
        for path in sorted(self.root.rglob("*.bicep")):
            if path.resolve() not in self.files:
                self.report.add(
                    str(path.relative_to(self.root)),
                    1,
                    "unreachable-file",
                    "nothing uses this file",
                )
                self.load(path.resolve(), None, 1)

    @property
    def readable(self) -> list[File]:
        """Return the files that could be read."""
        return [file for file in self.files.values() if file]

    def load(self, path: Path, asker: File | None, line: int) -> File | None:
        """Read a file once; report why it can't be read."""
        path = path.resolve()
        if path in self.files:
            return self.files[path]
        name = str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
        self.files[path] = None
        try:
            declarations = parse(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            self.report.add(asker.name if asker else name, line, "no-file", f"can't read {name}")
            return None
        except Unreadable as unreadable:
            for at, message in unreadable.faults:
                self.report.add(name, at, "syntax", message)
            return None
        file = File(path=path, name=name, declarations=declarations)
        self.files[path] = file
        self._open.append(path)
        self._link(file)
        self._open.pop()
        return file

    def _link(self, file: File) -> None:
        for one in file.declarations:
            match one:
                case s.Import():
                    self._import(file, one)
                case s.TargetScope():
                    self._scope(file, one)
                case s.Module():
                    if (there := file.sibling(one.path)) in self._open:
                        message = f"the module '{one.name}' leads back to {there.name}"
                        self.report.add(file.name, one.line, "cycle", message)
                    self.load(there, file, one.line)
                    self._declare(file, one, file)
                case s.Output() | s.Metadata():
                    continue
                case s.Declaration():
                    self._declare(file, one, file)
        outputs: set[str] = set()
        for output in file.all(s.Output):
            if output.name in outputs:
                self._twice(file, output.line, output.name)
            outputs.add(output.name)

    def _scope(self, file: File, one: s.TargetScope) -> None:
        value = one.value.value if isinstance(one.value, s.Literal) else None
        if value in SCOPES:
            file.scope = str(value)
        else:
            message = f"'{value}' is no scope; there are {', '.join(SCOPES)}"
            self.report.add(file.name, one.line, "scope", message)

    def _declare(self, file: File, one: s.Declaration, origin: File) -> None:
        if one.name in file.symbols or one.name in file.wildcards:
            self._twice(file, one.line, one.name)
            return
        file.symbols[one.name] = one
        file.origin[one.name] = origin

    def _twice(self, file: File, line: int, name: str) -> None:
        self.report.add(file.name, line, "declared-twice", f"'{name}' is declared twice")

    def _import(self, file: File, one: s.Import) -> None:
        there = self.load(file.sibling(one.path), file, one.line)
        if one.wildcard and there:
            file.wildcards[one.wildcard] = there
        for name, here in one.names:
            if here in file.symbols:
                self._twice(file, one.line, here)
            found = exported(there, name) if there else None
            if there and not found:
                message = f"{there.name} exports no '{name}'"
                self.report.add(file.name, one.line, "unknown-import", message)
            if there and found:
                file.symbols[here] = found
                file.origin[here] = there
            else:
                file.symbols[here] = s.TypeOf(
                    line=one.line, name=here, type=s.Name(line=one.line, name="any")
                )
                file.origin[here] = file


def exported(file: File, name: str) -> s.Declaration | None:
    """Return what a file exports under that name."""
    found = file.symbols.get(name)
    marked = found and any(one.name == "export" for one in found.decorators)
    return found if marked else None
