"""The types that templates declare for parameters, outputs, modules, and in type aliases."""

from __future__ import annotations

from pathlib import Path

from tools.bicepcheck.reading import modern
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types import resource_types

_BUILT_IN = {
    "string": t.STRING,
    "int": t.INT,
    "bool": t.BOOL,
    "array": t.ARRAY,
    "object": t.OBJECT,
    "any": t.ANY,
}


class Types:
    """The declared types of a folder; unknown ones are reported."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._resolving: set[tuple[Path, str]] = set()

    def of(self, node: s.Node, file: File, decorators: tuple[s.Call, ...] = ()) -> t.Type:
        """Return the type that *node* denotes, narrowed by its decorators."""
        return _narrowed(self._unnarrowed(node, file), decorators)

    def of_declaration(self, one: s.Param | s.Output | s.TypeAlias, file: File) -> t.Type:
        """Return the type of a declaration."""
        return self.of(one.type, file, one.decorators)

    def _unnarrowed(self, node: s.Node, file: File) -> t.Type:
        match node:
            case s.Name(name=name) if name in _BUILT_IN:
                return _BUILT_IN[name]
            case s.Name(name=name):
                found = file.symbols.get(name)
                if isinstance(found, s.TypeAlias):
                    return self._alias(found, file.origin[name])
            case s.Literal(value=value):
                return _of_resource(str(value)) or t.of_value(value)
            case s.NullableType():
                return t.nullable(self._unnarrowed(node.of, file))
            case s.ArrayType():
                return t.Arr(of=self._unnarrowed(node.of, file))
            case s.UnionType():
                return t.union([self._unnarrowed(one, file) for one in node.of])
            case s.Array():
                return t.Arr(of=t.union([self._unnarrowed(one, file) for one in node.items]))
            case s.Object():
                return self._object(node, file)
            case s.Member(of=s.Name(name=owner)) if owner in file.wildcards:
                there = file.wildcards[owner]
                found = there.exported(node.name)
                if isinstance(found, s.TypeAlias):
                    return self._alias(found, there)
            case s.Member():
                of = self._unnarrowed(node.of, file)
                if isinstance(of, t.Obj) and node.name in of.fields:
                    return of.fields[node.name].type
        name = str(getattr(node, "name", "?"))
        known = [key for key, one in file.symbols.items() if isinstance(one, s.TypeAlias)]
        message = f"there is no type '{name}'{t.suggestion(name, [*known, *_BUILT_IN])}"
        self.folder.report.add(file.name, node.line, "unknown-type", message)
        return t.ANY

    def _alias(self, found: s.TypeAlias, file: File) -> t.Type:
        key = (file.path, found.name)
        if key in self._resolving:
            return t.ANY
        self._resolving.add(key)
        kind = self.of_declaration(found, file)
        self._resolving.discard(key)
        if isinstance(kind, t.Obj):
            return t.Obj(fields=kind.fields, additional=kind.additional, name=found.name)
        return kind

    def _object(self, node: s.Object, file: File) -> t.Type:
        fields: dict[str, t.Field] = {}
        additional = None
        for one in node.properties:
            kind = self.of(one.value, file, one.decorators)
            if one.key == "*":
                additional = kind
            elif isinstance(one.key, str):
                if one.key in fields:
                    message = f"the type declares '{one.key}' twice; delete one"
                    self.folder.report.add(file.name, one.line, "declared-twice", message)
                fields[one.key] = t.Field(type=kind, required=not t.is_nullable(kind))
        return t.Obj(fields=fields, additional=additional)

    def module(self, path: Path) -> t.Type:
        """Return the readable members of a module."""
        file = self.folder.files.get(path)
        if file is None:
            return t.ANY
        outputs = {one.name: self.of_declaration(one, file) for one in file.all(s.Output)}
        members = {
            "name": t.STRING,
            "outputs": t.object_of(outputs, f"the outputs of {file.name}"),
        }
        return t.object_of(members, "module")

    def params(self, file: File) -> t.Obj:
        """Return the parameters of a file as an object."""
        fields = {}
        for one in file.all(s.Param):
            kind = self.of_declaration(one, file)
            required = one.default is None and not t.is_nullable(kind)
            fields[one.name] = t.Field(type=kind, required=required)
        return t.Obj(fields=fields, name=file.name)


def _of_resource(text: str) -> t.Type | None:
    """Return the type of ``resourceInput<…>``, if *text* is one."""
    found = modern.resource_type(text)
    if found is None:
        return None
    known = resource_types.known(found[0])
    kind = known.body if known else t.ANY
    for step in found[1]:
        kind = t.without_null(kind)
        if step == "[*]":
            kind = t.item_of(kind)
        elif isinstance(kind, t.Obj) and step in kind.fields:
            kind = kind.fields[step].type
        else:
            return t.ANY
    return kind


def limits_of(decorators: tuple[s.Call, ...]) -> dict[str, int]:
    """Return the numbers that decorators such as `maxLength` set, by decorator name."""
    found = {}
    for one in decorators:
        value = one.args[0].value if one.args and isinstance(one.args[0], s.Literal) else None
        if isinstance(value, int):
            found[one.name] = value
    return found


def _narrowed(kind: t.Type, decorators: tuple[s.Call, ...]) -> t.Type:
    limits = limits_of(decorators)
    for one in decorators:
        if one.name == "allowed" and one.args and isinstance(one.args[0], s.Array):
            items = one.args[0].items
            return t.union(
                [t.of_value(item.value) for item in items if isinstance(item, s.Literal)]
            )
    if isinstance(kind, t.Int) and kind.value is None:
        return t.Int(minimum=limits.get("minValue"), maximum=limits.get("maxValue"))
    if isinstance(kind, t.Str) and kind.value is None:
        return t.Str(min_length=limits.get("minLength"), max_length=limits.get("maxLength"))
    return kind
