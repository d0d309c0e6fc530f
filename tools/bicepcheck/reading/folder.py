"""Loads a folder of templates: its files, and the declaration behind each name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tools.bicepcheck.problems import Problem, ProblemReport
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.nodes import Kind
from tools.bicepcheck.reading.parse import Unreadable, parse

SCOPES = ("resourceGroup", "subscription", "managementGroup", "tenant")


@dataclass(kw_only=True)
class File:
    """One template."""

    path: Path
    name: str  # relative to the folder
    text: str
    declarations: tuple[s.Node, ...]
    # By name, imported ones included.
    symbols: dict[str, s.Declaration] = field(default_factory=dict)
    origin: dict[str, File] = field(default_factory=dict)
    wildcards: dict[str, File] = field(default_factory=dict)
    scope: str = "resourceGroup"

    @cached_property
    def nodes(self) -> tuple[s.Node, ...]:
        """All nodes of the file, outer ones first."""
        return tuple(node for one in self.declarations for node in one.tree)

    def all(self, kind: type[Kind]) -> Iterator[Kind]:
        """Yield the nodes of a kind, nested ones included."""
        return (node for node in self.nodes if isinstance(node, kind))

    def sibling(self, path: str) -> Path:
        """Return the path of a file named relative to this one."""
        return (self.path.parent / path).resolve()

    def problem(self, at: s.Node, code: str, message: str) -> Problem:
        """Return a problem of a node."""
        return Problem(self.name, at.line, code, message)

    def exported(self, name: str) -> s.Declaration | None:
        """Return the declaration that the file exports under that name."""
        found = self.symbols.get(name)
        return found if found and found.has("export") else None


class Folder:
    """All files that `main.bicep` uses, directly or not."""

    def __init__(self, root: Path, report: ProblemReport) -> None:
        self.root = root.resolve()
        self.report = report
        self.files: dict[Path, File | None] = {}
        self._loading: list[Path] = []  # each uses the next
        self.main = self._load(self.root / "main.bicep", None, 1)
        for path in sorted(self.root.rglob("*.bicep")):
            if path.resolve() not in self.files:
                name = str(path.relative_to(self.root))
                message = "no template uses this file; use it as a module or delete it"
                report.add(name, 1, "unreachable-file", message)
                self._load(path.resolve(), None, 1)

    @property
    def readable(self) -> list[File]:
        """The files without syntax errors."""
        return [file for file in self.files.values() if file]

    def module(self, file: File, one: s.Module) -> File | None:
        """Return the file of a module."""
        return self.files.get(file.sibling(one.path))

    def _load(self, path: Path, user: File | None, line: int) -> File | None:
        """Read a file once; report why it can't be read, at the *line* of its *user*."""
        path = path.resolve()
        if path in self.files:
            return self.files[path]
        name = str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
        self.files[path] = None
        try:
            text = path.read_text(encoding="utf-8")
            declarations = parse(text)
        except (OSError, UnicodeDecodeError):
            where = user.name if user else name
            self.report.add(where, line, "no-file", f"can't read {name}; is the path right?")
            return None
        except Unreadable as unreadable:
            self.report.add(name, unreadable.line, "syntax", unreadable.message)
            return None
        file = File(path=path, name=name, text=text, declarations=declarations)
        self.files[path] = file
        self._loading.append(path)
        self._link(file)
        self._loading.pop()
        return file

    def _problem(self, file: File, at: s.Node, code: str, message: str) -> None:
        self.report.problems.add(file.problem(at, code, message))

    def _link(self, file: File) -> None:
        for one in file.declarations:
            match one:
                case s.Import():
                    self._import(file, one)
                case s.TargetScope():
                    value = one.value.value if isinstance(one.value, s.Literal) else None
                    if value in SCOPES:
                        file.scope = str(value)
                    else:
                        message = f"'{value}' is not a scope; use one of {', '.join(SCOPES)}"
                        self._problem(file, one, "scope", message)
                case s.Module():
                    if (there := file.sibling(one.path)) in self._loading:
                        message = f"the module '{one.name}' uses itself through {there.name}"
                        self._problem(file, one, "cycle", message)
                    self._load(there, file, one.line)
                    self._declare(file, one)
                case s.Output() | s.Metadata():
                    continue
                case s.Declaration():
                    self._declare(file, one)
        outputs: set[str] = set()
        for output in file.all(s.Output):
            if output.name in outputs:
                self._twice(file, output, output.name)
            outputs.add(output.name)

    def _declare(self, file: File, one: s.Declaration) -> None:
        if one.name in file.symbols or one.name in file.wildcards:
            self._twice(file, one, one.name)
            return
        file.symbols[one.name] = one
        file.origin[one.name] = file

    def _twice(self, file: File, at: s.Node, name: str) -> None:
        message = f"'{name}' is declared twice; rename or delete one"
        self._problem(file, at, "declared-twice", message)

    def _import(self, file: File, one: s.Import) -> None:
        there = self._load(file.sibling(one.path), file, one.line)
        if one.wildcard and there:
            file.wildcards[one.wildcard] = there
        for name, here in one.names:
            if here in file.symbols:
                self._twice(file, one, here)
            found = there.exported(name) if there else None
            if there and not found:
                message = f"{there.name} does not export '{name}'; mark it with @export()"
                self._problem(file, one, "unknown-import", message)
            anything = s.TypeAlias(line=one.line, name=here, type=s.Name(line=one.line, name="any"))
            file.symbols[here] = found or anything
            file.origin[here] = there if there and found else file
