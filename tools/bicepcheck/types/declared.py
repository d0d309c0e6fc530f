"""Types that templates declare: of parameters, outputs, modules and their own."""

from __future__ import annotations

from pathlib import Path

from tools.bicepcheck.reading import newer as dialect
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder, exported
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types import resource_types

_PLAIN = {
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
        self._open: set[tuple[Path, str]] = set()

    def of(self, node: s.Node, file: File, decorators: tuple[s.Call, ...] = ()) -> t.Type:
        """Return the type that *node* writes down, narrowed by its decorators."""
        return narrowed(self._bare(node, file), decorators)

    def _bare(self, node: s.Node, file: File) -> t.Type:
        match node:
            case s.Name(name=name):
                return _PLAIN[name] if name in _PLAIN else self._named(name, file, node.line)
            case s.Literal(value=value):
                return _of_resource(str(value)) or t.of_literal(value)
            case s.Nullable():
                return t.nullable(self._bare(node.of, file))
            case s.ArrayOf():
                return t.Arr(of=self._bare(node.of, file))
            case s.OneOf():
                return t.union([self._bare(one, file) for one in node.of])
            case s.Array():
                items = [self._bare(one, file) for one in node.items]
                return t.Arr(of=t.union(items) if items else t.ANY)
            case s.Object():
                return self._object(node, file)
            case s.Member(of=s.Name(name=owner)) if owner in file.wildcards:
                there = file.wildcards[owner]
                found = exported(there, node.name)
                if isinstance(found, s.TypeOf):
                    return self._type(found, there)
            case s.Member():
                of = self._bare(node.of, file)
                if isinstance(of, t.Obj) and node.name in of.fields:
                    return of.fields[node.name].type
        message = f"there is no type '{getattr(node, 'name', '?')}'"
        self.folder.report.add(file.name, node.line, "unknown-type", message)
        return t.ANY

    def _named(self, name: str, file: File, line: int) -> t.Type:
        found = file.symbols.get(name)
        if isinstance(found, s.TypeOf):
            origin = file.origin[name]
            return self._type(found, origin)
        known = [key for key, one in file.symbols.items() if isinstance(one, s.TypeOf)]
        hint = t.nearest(name, [*known, *_PLAIN])
        self.folder.report.add(file.name, line, "unknown-type", f"there is no type '{name}'{hint}")
        return t.ANY

    def _type(self, found: s.TypeOf, file: File) -> t.Type:
        key = (file.path, found.name)
        if key in self._open:
            return t.ANY
        self._open.add(key)
        made = self.of(found.type, file, found.decorators)
        self._open.discard(key)
        return (
            t.Obj(fields=made.fields, rest=made.rest, name=found.name)
            if isinstance(made, t.Obj)
            else made
        )

    def _object(self, node: s.Object, file: File) -> t.Type:
        fields: dict[str, t.Field] = {}
        rest = None
        for one in node.properties:
            kind = self.of(one.value, file, one.decorators)
            if one.key == "*":
                rest = kind
            elif isinstance(one.key, str):
                if one.key in fields:
                    message = f"'{one.key}' is there twice"
                    self.folder.report.add(file.name, one.line, "declared-twice", message)
                optional = isinstance(kind, t.Union) and t.NULL in kind.of
                fields[one.key] = t.Field(type=kind, required=not optional)
        return t.Obj(fields=fields, rest=rest)

    def module(self, path: Path) -> t.Type:
        """Return what can be read of a module."""
        file = self.folder.files.get(path)
        if file is None:
            return t.ANY
        outputs = {
            one.name: t.Field(type=self.of(one.type, file, one.decorators), required=True)
            for one in file.all(s.Output)
        }
        fields = {
            "name": t.Field(type=t.STRING),
            "outputs": t.Field(type=t.Obj(fields=outputs, name=f"{file.name}, of its outputs,")),
        }
        return t.Obj(fields=fields, name="module")

    def params(self, file: File) -> t.Obj:
        """Return the parameters of a file as an object."""
        fields = {}
        for one in file.all(s.Param):
            kind = self.of(one.type, file, one.decorators)
            optional = isinstance(kind, t.Union) and t.NULL in kind.of
            fields[one.name] = t.Field(type=kind, required=one.default is None and not optional)
        return t.Obj(fields=fields, name=file.name)


def _of_resource(text: str) -> t.Type | None:
    """Return the type that is taken from a resource's, if the text names one."""
    found = dialect.resource_type(text)
    if found is None:
        return None
    known = resource_types.known(found[0])
    kind = known.body if known else t.ANY
    for step in found[1]:
        kind = t.without_null(kind)
        if step == "[*]":
            kind = kind.of if isinstance(kind, t.Arr) else t.ANY
        elif isinstance(kind, t.Obj) and step in kind.fields:
            kind = kind.fields[step].type
        else:
            return t.ANY
    return kind


def limits_of(decorators: tuple[s.Call, ...]) -> dict[str, int]:
    """Return the numbers that decorators give, such as `maxLength`, by their names."""
    found = {}
    for one in decorators:
        value = one.args[0].value if one.args and isinstance(one.args[0], s.Literal) else None
        if isinstance(value, int):
            found[one.name] = value
    return found


def narrowed(kind: t.Type, decorators: tuple[s.Call, ...]) -> t.Type:
    """Return *kind* within the limits that decorators set."""
    limits = limits_of(decorators)
    for one in decorators:
        if one.name == "allowed" and one.args and isinstance(one.args[0], s.Array):
            values = [item.value for item in one.args[0].items if isinstance(item, s.Literal)]
            return t.union([t.of_literal(value) for value in values])
    if isinstance(kind, t.Int) and kind.value is None:
        return t.Int(least=limits.get("minValue"), most=limits.get("maxValue"))
    if isinstance(kind, t.Str) and kind.value is None:
        return t.Str(shortest=limits.get("minLength"), longest=limits.get("maxLength"))
    if isinstance(kind, t.Arr):
        return t.Arr(of=kind.of, shortest=limits.get("minLength"), longest=limits.get("maxLength"))
    return kind
