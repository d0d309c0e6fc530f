"""The type of every expression of a file; what does not fit is reported on the way."""

from __future__ import annotations

from collections.abc import Mapping

from tools.bicepcheck.problems import Report
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File
from tools.bicepcheck.reading.newer import SPREAD
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types import resource_types
from tools.bicepcheck.types.calls import Calls, item_of
from tools.bicepcheck.types.declared import Types
from tools.bicepcheck.types.fit import Asked

Locals = Mapping[str, t.Type]
NO_LOCALS: Locals = {}
ALWAYS_KNOWN = frozenset({"id", "name", "type", "apiVersion"})
"""Members of a resource that are known before it is made."""

_COMPARE = frozenset({"<", "<=", ">", ">="})


class Inference:
    """Types of one file's expressions."""

    def __init__(self, file: File, types: Types, report: Report) -> None:
        self.file = file
        self.types = types
        self.report = report
        self._symbols: dict[str, t.Type] = {}
        self._open: set[str] = set()
        self._files: dict[str, t.Type] = {}

    def problem(self, line: int, code: str, message: str) -> None:
        self.report.add(self.file.name, line, code, message)

    def check(self, node: s.Node, asked: t.Type, local: Locals = NO_LOCALS, what: str = "") -> None:
        """Report where *node* can't stand where *asked* is asked for; *what*: what it is."""
        Asked(self).check(node, asked, local, what)

    def symbol(self, name: str) -> t.Type | None:
        """Return the type of a name of the file."""
        declared = self.file.symbols.get(name)
        if declared is None:
            return None
        if name in self._symbols:
            return self._symbols[name]
        if name in self._open:
            return t.ANY  # a cycle, which is reported elsewhere
        self._open.add(name)
        self._symbols[name] = self._declared(declared)
        self._open.discard(name)
        return self._symbols[name]

    def _declared(self, one: s.Declaration) -> t.Type:
        match one:
            case s.Param():
                return self.types.of(one.type, self.file, one.decorators)
            case s.Var():
                if one.type is not None:
                    return self.types.of(one.type, self.file, one.decorators)
                return self.of(one.value, NO_LOCALS)
            case s.Resource():
                return self.resource(one, None)
            case s.Module():
                loop, test, _ = s.loop_parts(one.value)
                there = self.file.sibling(one.path)
                body = self.types.module(there)
                kind: t.Type = t.ResourceType(kind="module", body=body, maybe=test is not None)
                return t.Arr(of=kind) if loop else kind
        return t.ANY

    def resource(self, one: s.Resource, parent: str | None) -> t.Type:
        """Return the type of a declared resource; *parent*: the type it is nested in."""
        loop, test, _ = s.loop_parts(one.value)
        name = one.type.split("@")[0]
        name = f"{parent}/{name}" if parent else name
        found = resource_types.known(name)
        body = found.body if found else t.ANY
        kind: t.Type = t.ResourceType(kind=name, body=body, maybe=test is not None)
        return t.Arr(of=kind) if loop else kind

    def loop(self, node: s.For, local: Locals) -> Locals:
        """Return the names within a loop."""
        source = self.of(node.source, local)
        if why := t.mismatch(source, t.ARRAY):
            self.problem(node.source.line, "type", f"the loop: {why}")
        inner = dict(local)
        inner[node.item] = item_of(source)
        if node.index:
            inner[node.index] = t.INT
        return inner

    def of(self, node: s.Node, local: Locals = NO_LOCALS) -> t.Type:
        """Return the type of an expression."""
        match node:
            case s.Literal():
                return t.of_literal(node.value)
            case s.Text():
                return self._text(node, local)
            case s.Name():
                return self._name(node, local)
            case s.Member():
                return self._member(node, local)
            case s.Index():
                return self._index(node, local)
            case s.Sure():
                return t.certain(self.of(node.of, local))
            case s.Spread():
                return item_of(self.of(node.of, local))
            case s.Nested():
                return self._nested(node, local)
            case s.Call():
                return Calls(self).of(node, local)
            case s.Unary():
                self.check(node.of, t.BOOL if node.op == "!" else t.INT, local, node.op)
                return t.BOOL if node.op == "!" else t.INT
            case s.Binary():
                return self._binary(node, local)
            case s.Choice():
                self.check(node.test, t.BOOL, local, "condition")
                return t.union([self.of(node.yes, local), self.of(node.no, local)])
            case s.Array():
                items = [self.of(item, local) for item in node.items]
                return t.Arr(of=t.union(items) if items else t.ANY)
            case s.Object():
                return self._object(node, local)
            case s.For():
                return t.Arr(of=self.of(node.body, self.loop(node, local)))
            case s.If():
                self.check(node.test, t.BOOL, local, "condition")
                return self.of(node.body, local)
        return t.ANY

    def _text(self, node: s.Text, local: Locals) -> t.Type:
        texts: list[str] | None = []
        for part in node.parts:
            kind = t.Str(value=part) if isinstance(part, str) else self.of(part, local)
            if isinstance(kind, t.ResourceType | t.Obj | t.Arr) and isinstance(part, s.Node):
                self.problem(part.line, "type", f"{t.show(kind)} within a text")
            if texts is not None and isinstance(kind, t.Str | t.Int) and kind.value is not None:
                texts.append(str(kind.value))
            else:
                texts = None
        return t.Str(value="".join(texts)) if texts is not None else t.STRING

    def _name(self, node: s.Name, local: Locals) -> t.Type:
        if node.name in local:
            return local[node.name]
        found = self.symbol(node.name)
        if found is None:
            if node.name in self.file.wildcards:
                return t.ANY
            known = [*self.file.symbols, *local]
            hint = t.nearest(node.name, known)
            self.problem(node.line, "unknown-name", f"there is no '{node.name}'{hint}")
            return t.ANY
        if isinstance(self.file.symbols[node.name], s.TypeOf):
            self.problem(node.line, "type", f"'{node.name}' is a type, not a value")
            return t.ANY
        return found

    def _member(self, node: s.Member, local: Locals) -> t.Type:
        of = self.of(node.of, local)
        if isinstance(of, t.ResourceType):
            if of.maybe and not node.safe and node.name not in ALWAYS_KNOWN:
                message = f"'{node.name}' of what is deployed under a condition: use .?"
                self.problem(node.line, "may-be-null", message)
            found = self._read(of.body, node, of.kind)
            return t.nullable(found) if of.maybe and found != t.ANY else found
        if isinstance(of, t.Union) and t.NULL in of.of:
            if not node.safe and not self._after_safe(node.of):
                self.problem(node.line, "may-be-null", f"'{node.name}' of what may be null: use .?")
            return t.nullable(self._read(t.without_null(of), node, ""))
        return self._read(of, node, "")

    def _after_safe(self, node: s.Node) -> bool:
        """Whether a chain holds .?, after which the rest is skipped when there is nothing."""
        while isinstance(node, s.Member | s.Index):
            if node.safe:
                return True
            node = node.of
        return False

    def _read(self, of: t.Type, node: s.Member, kind: str) -> t.Type:
        if isinstance(of, t.Union):
            return t.union([self._read(one, node, kind) for one in of.of])
        if isinstance(of, t.Tagged):
            found = [
                one.fields[node.name].type for one in of.of.values() if node.name in one.fields
            ]
            return t.union(found) if found else self._none(node, t.show(of), [])
        if isinstance(of, t.ResourceType):
            return self._read(of.body, node, of.kind)
        if not isinstance(of, t.Obj):
            return of if of == t.ANY else self._none(node, t.show(of), [])
        member = of.fields.get(node.name)
        if member:
            if not member.readable:
                self.problem(node.line, "write-only", f"'{node.name}' can't be read")
            return member.type
        if of.rest is not None:
            return of.rest
        return self._none(node, kind or t.show(of), list(of.fields))

    def _none(self, node: s.Member, of: str, known: list[str]) -> t.Type:
        if not node.safe or known:
            hint = t.nearest(node.name, known)
            self.problem(node.line, "unknown-member", f"{of} has no '{node.name}'{hint}")
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
            self.problem(node.line, "type", f"{of.kind} is no list")
        return t.ANY

    def _nested(self, node: s.Nested, local: Locals) -> t.Type:
        of = self.of(node.of, local)
        owner = self.file.symbols.get(node.of.name) if isinstance(node.of, s.Name) else None
        if isinstance(owner, s.Resource) and isinstance(of, t.ResourceType):
            body = s.loop_parts(owner.value)[2]
            inner = body.resources if isinstance(body, s.Object) else ()
            for one in inner:
                if one.name == node.name:
                    return self.resource(one, of.kind)
        self.problem(node.line, "unknown-name", f"there is no '{node.name}' within the resource")
        return t.ANY

    def _object(self, node: s.Object, local: Locals) -> t.Type:
        fields: dict[str, t.Field] = {}
        written: set[str] = set()
        rest = None
        for one in node.properties:
            kind = self.of(one.value, local)
            if one.key == SPREAD:
                fields.update(kind.fields if isinstance(kind, t.Obj) else {})
                rest = (kind.rest or rest) if isinstance(kind, t.Obj) else t.ANY
            elif isinstance(one.key, s.Text):
                self.of(one.key, local)
                rest = t.ANY
            else:
                if one.key in written:
                    self.problem(one.line, "declared-twice", f"'{one.key}' is there twice")
                written.add(one.key)
                fields[one.key] = t.Field(type=kind, required=True)
        return t.Obj(fields=fields, rest=rest)

    def _binary(self, node: s.Binary, local: Locals) -> t.Type:
        left, right = self.of(node.left, local), self.of(node.right, local)
        if node.op == "??":
            return t.union([t.without_null(left), right])
        if node.op in {"&&", "||"}:
            for one, kind in ((node.left, left), (node.right, right)):
                if why := t.mismatch(kind, t.BOOL):
                    self.problem(one.line, "type", f"{node.op}: {why}")
            return t.BOOL
        if node.op in {"==", "!=", "=~", "!~"}:
            self._comparable(node, left, right)
            return t.BOOL
        asked = t.union([t.INT, t.STRING]) if node.op in _COMPARE else t.INT
        for one, kind in ((node.left, left), (node.right, right)):
            if why := t.mismatch(kind, asked):
                self.problem(one.line, "type", f"{node.op}: {why}")
        if node.op in _COMPARE and t.mismatch(left, t.INT) and t.mismatch(right, t.STRING):
            self.problem(node.line, "type", f"{node.op}: {t.show(left)} beside {t.show(right)}")
        if node.op in _COMPARE and t.mismatch(left, t.STRING) and t.mismatch(right, t.INT):
            self.problem(node.line, "type", f"{node.op}: {t.show(left)} beside {t.show(right)}")
        return t.BOOL if node.op in _COMPARE else t.INT

    def _comparable(self, node: s.Binary, left: t.Type, right: t.Type) -> None:
        if t.ANY in {left, right} or not isinstance(left, t.Type):
            return
        pairs = [(a, b) for a in t.parts(left) for b in t.parts(right)]
        if node.op in {"=~", "!~"}:
            pairs = [(_lower(a), _lower(b)) for a, b in pairs]
        if all(t.mismatch(a, b) and t.mismatch(b, a) for a, b in pairs):
            message = f"{t.show(left)} is never {t.show(right)}"
            self.problem(node.line, "never-equal", message)


def _lower(kind: t.Type) -> t.Type:
    if isinstance(kind, t.Str) and kind.value is not None:
        return t.Str(value=kind.value.lower())
    return kind
