"""Infers the type of every expression of a file, and reports what does not fit."""

from __future__ import annotations

from collections.abc import Mapping

from tools.bicepcheck.problems import Report
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File
from tools.bicepcheck.reading.modern import SPREAD
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types import resource_types
from tools.bicepcheck.types.calls import Calls
from tools.bicepcheck.types.declared import Types
from tools.bicepcheck.types.fit import Fit

Locals = Mapping[str, t.Type]
NO_LOCALS: Locals = {}
KNOWN_BEFOREHAND = frozenset({"id", "name", "type", "apiVersion"})
"""Members of a resource that are known before it is deployed."""

_ORDER = frozenset({"<", "<=", ">", ">="})
_EQUALITY = frozenset({"==", "!=", "=~", "!~"})


class Inference:
    """The types of one file's expressions."""

    def __init__(self, file: File, types: Types, report: Report) -> None:
        self.file = file
        self.types = types
        self.report = report
        self._symbols: dict[str, t.Type] = {}
        self._resolving: set[str] = set()
        self._fit = Fit(self)
        self._calls = Calls(self)

    def problem(self, line: int, code: str, message: str) -> None:
        """Record a problem of the file."""
        self.report.add(self.file.name, line, code, message)

    def check(
        self, node: s.Node, expected: t.Type, local: Locals = NO_LOCALS, label: str = ""
    ) -> None:
        """Report where *node* does not fit *expected*; *label* names what it is."""
        self._fit.check(node, expected, local, label)

    def symbol(self, name: str) -> t.Type | None:
        """Return the type of a name of the file."""
        declared = self.file.symbols.get(name)
        if declared is None:
            return None
        if name not in self._symbols:
            if name in self._resolving:
                return t.ANY  # a cycle, which another rule reports
            self._resolving.add(name)
            self._symbols[name] = self._declared(declared)
            self._resolving.discard(name)
        return self._symbols[name]

    def _declared(self, one: s.Declaration) -> t.Type:
        match one:
            case s.Param():
                return self.types.of_declaration(one, self.file)
            case s.Var(type=None):
                return self.of(one.value)
            case s.Var(type=s.Node() as kind):
                return self.types.of(kind, self.file, one.decorators)
            case s.Resource():
                return self._resource(one, None)
            case s.Module():
                return _deployed(one, "module", self.types.module(self.file.sibling(one.path)))
        return t.ANY

    def _resource(self, one: s.Resource, parent: str | None) -> t.Type:
        name = one.type.split("@")[0]
        name = f"{parent}/{name}" if parent else name
        found = resource_types.known(name)
        return _deployed(one, name, found.body if found else t.ANY)

    def loop(self, node: s.For | None, local: Locals) -> Locals:
        """Return the local names within a loop."""
        if node is None:
            return local
        source = self.of(node.source, local)
        if why := t.mismatch(source, t.ARRAY):
            self.problem(node.source.line, "type", f"the loop: {why}")
        index = {node.index: t.INT} if node.index else {}
        return {**local, node.item: t.item_of(source), **index}

    def of(self, node: s.Node, local: Locals = NO_LOCALS) -> t.Type:
        """Return the type of an expression."""
        match node:
            case s.Literal():
                return t.of_value(node.value)
            case s.Interpolation():
                return self._interpolation(node, local)
            case s.Name():
                return self._name(node, local)
            case s.Member():
                return self._member(node, local)
            case s.Index():
                return self._index(node, local)
            case s.NonNull():
                return t.asserted(self.of(node.of, local))
            case s.Spread():
                return t.item_of(self.of(node.of, local))
            case s.NestedAccess():
                return self._nested(node, local)
            case s.Call():
                return self._calls.of(node, local)
            case s.Unary():
                kind = t.BOOL if node.op == "!" else t.INT
                self.check(node.of, kind, local, node.op)
                return kind
            case s.Binary():
                return self._binary(node, local)
            case s.Ternary():
                self.check(node.test, t.BOOL, local, "condition")
                return t.union([self.of(node.yes, local), self.of(node.no, local)])
            case s.Array():
                return t.Arr(of=t.union([self.of(item, local) for item in node.items]))
            case s.Object():
                return self._object(node, local)
            case s.For():
                return t.Arr(of=self.of(node.body, self.loop(node, local)))
            case s.If():
                self.check(node.test, t.BOOL, local, "condition")
                return self.of(node.body, local)
        return t.ANY

    def _interpolation(self, node: s.Interpolation, local: Locals) -> t.Type:
        texts: list[str | None] = []
        for part in node.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            kind = self.of(part, local)
            if isinstance(kind, t.ResourceType | t.Obj | t.Arr):
                message = f"a string can't contain a value of type {kind}; use one of its members"
                self.problem(part.line, "type", message)
            value = kind.value if isinstance(kind, t.Str | t.Int) else None
            texts.append(None if value is None else str(value))
        known = [text for text in texts if text is not None]
        return t.Str(value="".join(known)) if len(known) == len(texts) else t.STRING

    def _name(self, node: s.Name, local: Locals) -> t.Type:
        if node.name in local:
            return local[node.name]
        found = self.symbol(node.name)
        if found is None:
            if node.name not in self.file.wildcards:
                hint = t.suggestion(node.name, [*self.file.symbols, *local])
                message = f"'{node.name}' is not declared{hint}"
                self.problem(node.line, "unknown-name", message)
            return t.ANY
        if isinstance(self.file.symbols[node.name], s.TypeAlias):
            message = f"'{node.name}' is a type; a value is expected here"
            self.problem(node.line, "type", message)
        return found

    def _member(self, node: s.Member, local: Locals) -> t.Type:
        of = self.of(node.of, local)
        if isinstance(of, t.ResourceType):
            if of.conditional and not node.safe and node.name not in KNOWN_BEFOREHAND:
                message = f"the resource with '{node.name}' may not be deployed: read it with .?"
                self.problem(node.line, "may-be-null", message)
            found = self._read(of.body, node, of.kind)
            return t.nullable(found) if of.conditional else found
        if t.is_nullable(of):
            if not node.safe and not _after_safe(node.of):
                message = f"the value with '{node.name}' may be null: read it with .?"
                self.problem(node.line, "may-be-null", message)
            return t.nullable(self._read(t.without_null(of), node, ""))
        return self._read(of, node, "")

    def _read(self, of: t.Type, node: s.Member, owner: str) -> t.Type:
        """Return the type of a member; *owner*: the resource type that has it, if one does."""
        match of:
            case t.Union():
                return t.union([self._read(one, node, owner) for one in of.of])
            case t.Discriminated():
                variants = of.variants.values()
                found = [one.fields[node.name].type for one in variants if node.name in one.fields]
                if found:
                    return t.union(found)
            case t.ResourceType():
                return self._read(of.body, node, of.kind)
            case t.Obj():
                if member := of.fields.get(node.name):
                    if not member.readable:
                        message = f"'{node.name}' is write-only and can't be read"
                        self.problem(node.line, "write-only", message)
                    return member.type
                if of.additional is not None:
                    return of.additional
            case _ if of == t.ANY:
                return of
        known = list(of.fields) if isinstance(of, t.Obj) else []
        if not node.safe or known:
            name = owner if owner and isinstance(of, t.Obj) else str(of)
            message = f"{name} has no '{node.name}'{t.suggestion(node.name, known)}"
            self.problem(node.line, "unknown-member", message)
        return t.ANY

    def _index(self, node: s.Index, local: Locals) -> t.Type:
        of, at = self.of(node.of, local), self.of(node.at, local)
        if isinstance(of, t.Arr):
            if why := t.mismatch(at, t.INT):
                self.problem(node.line, "type", f"index: {why}")
            return of.of
        if isinstance(of, t.Obj) and isinstance(at, t.Str) and at.value is not None:
            return self._read(of, s.Member(line=node.line, of=node.of, name=at.value), "")
        if isinstance(of, t.ResourceType):
            message = f"{of} is declared without a loop, so it has no index; delete the index"
            self.problem(node.line, "type", message)
        return t.ANY

    def _nested(self, node: s.NestedAccess, local: Locals) -> t.Type:
        of = self.of(node.of, local)
        owner = self.file.symbols.get(node.of.name) if isinstance(node.of, s.Name) else None
        if isinstance(owner, s.Resource) and isinstance(of, t.ResourceType):
            for one in owner.nested:
                if one.name == node.name:
                    return self._resource(one, of.kind)
        message = f"the resource has no nested resource '{node.name}'"
        self.problem(node.line, "unknown-name", message)
        return t.ANY

    def _object(self, node: s.Object, local: Locals) -> t.Type:
        fields: dict[str, t.Field] = {}
        written: set[str] = set()
        additional: t.Type | None = None
        for one in node.properties:
            kind = self.of(one.value, local)
            if one.key == SPREAD:
                fields.update(kind.fields if isinstance(kind, t.Obj) else {})
                additional = (kind.additional or additional) if isinstance(kind, t.Obj) else t.ANY
            elif isinstance(one.key, s.Interpolation):
                self.of(one.key, local)
                additional = t.ANY
            else:
                if one.key in written:
                    message = f"'{one.key}' is set twice; delete one"
                    self.problem(one.line, "declared-twice", message)
                written.add(one.key)
                fields[one.key] = t.Field(type=kind, required=True)
        return t.Obj(fields=fields, additional=additional)

    def _binary(self, node: s.Binary, local: Locals) -> t.Type:
        left, right = self.of(node.left, local), self.of(node.right, local)
        if node.op == "??":
            return t.union([t.without_null(left), right])
        if node.op in _EQUALITY:
            self._comparable(node, left, right)
            return t.BOOL
        boolean = node.op in {"&&", "||"}
        ordered = t.union([t.INT, t.STRING]) if node.op in _ORDER else t.INT
        for one, kind in ((node.left, left), (node.right, right)):
            if why := t.mismatch(kind, t.BOOL if boolean else ordered):
                self.problem(one.line, "type", f"{node.op}: {why}")
        mixed = [
            t.mismatch(left, one) and t.mismatch(right, other)
            for one, other in ((t.INT, t.STRING), (t.STRING, t.INT))
        ]
        if node.op in _ORDER and any(mixed):
            message = f"{node.op} compares {left} with {right}; compare values of one type"
            self.problem(node.line, "type", message)
        return t.BOOL if boolean or node.op in _ORDER else t.INT

    def _comparable(self, node: s.Binary, left: t.Type, right: t.Type) -> None:
        if t.ANY in (left, right):
            return
        pairs = [(a, b) for a in t.parts(left) for b in t.parts(right)]
        if "~" in node.op:
            pairs = [(_lower(a), _lower(b)) for a, b in pairs]
        if all(t.mismatch(a, b) and t.mismatch(b, a) for a, b in pairs):
            message = f"{left} never equals {right}, so the comparison decides nothing"
            self.problem(node.line, "never-equal", message)


def _deployed(one: s.Deployable, kind: str, body: t.Type) -> t.Type:
    found = t.ResourceType(kind=kind, body=body, conditional=one.test is not None)
    return t.Arr(of=found) if one.loop else found


def _after_safe(node: s.Node) -> bool:
    """Return whether a chain contains .?, which skips the rest of the chain for null."""
    while isinstance(node, s.Member | s.Index):
        if node.safe:
            return True
        node = node.of
    return False


def _lower(kind: t.Type) -> t.Type:
    if isinstance(kind, t.Str) and kind.value is not None:
        return t.Str(value=kind.value.lower())
    return kind
