"""Rules of what a file declares: parameters, outputs, modules, types."""

from __future__ import annotations

from collections.abc import Mapping

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File
from tools.bicepcheck.rules.resources import Resources
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types.declared import Types
from tools.bicepcheck.types.functions import DECORATORS
from tools.bicepcheck.types.infer import Inference


class Declarations:
    """The check of one file."""

    def __init__(self, file: File, types: Types, inference: Inference) -> None:
        self.file = file
        self.types = types
        self.infer = inference
        self.problem = inference.problem
        self.resources = Resources(file, inference)

    def check(self) -> None:
        for one in self.file.declarations:
            if isinstance(one, s.Declaration):
                self._decorators(one)
            match one:
                case s.Param():
                    self._param(one)
                case s.Var():
                    self.infer.symbol(one.name)
                    if one.type is not None:
                        asked = self.types.of(one.type, self.file, one.decorators)
                        self.infer.check(one.value, asked, what=one.name)
                case s.Output():
                    self.infer.check(
                        one.value, self.types.of(one.type, self.file, one.decorators), what=one.name
                    )
                case s.TypeOf():
                    self.types.of(one.type, self.file, one.decorators)
                case s.Function():
                    self._function(one)
                case s.Resource():
                    self.resources.check(one, None)
                case s.Module():
                    self._module(one)
                case s.Metadata():
                    self.infer.of(one.value)

    def _param(self, one: s.Param) -> None:
        kind = self.types.of(one.type, self.file, one.decorators)
        if one.default is not None:
            self.infer.check(one.default, kind, {"*default": t.ANY}, one.name)
            if any(mark.name == "secure" for mark in one.decorators) and not _empty(one.default):
                self.problem(one.line, "secret-default", f"{one.name} is secret and has a default")

    def _function(self, one: s.Function) -> None:
        local = {name: self.types.of(kind, self.file) for name, kind in one.params}
        self.infer.check(one.body, self.types.of(one.returns, self.file), local, one.name)

    def _decorators(self, one: s.Declaration) -> None:
        kind = one.type if isinstance(one, s.Param | s.Output | s.TypeOf) else None
        self._marks(one.decorators, kind, one.name)
        for node in s.walk(one):
            if isinstance(node, s.Property) and node.decorators:
                self._marks(node.decorators, node.value, str(node.key))

    def _marks(self, marks: tuple[s.Call, ...], node: s.Node | None, name: str) -> None:
        seen: set[str] = set()
        for mark in marks:
            if mark.name not in DECORATORS:
                hint = t.nearest(mark.name, list(DECORATORS))
                message = f"there is no @{mark.name}(){hint}"
                self.problem(mark.line, "unknown-decorator", message)
                continue
            if mark.name in seen:
                self.problem(mark.line, "declared-twice", f"@{mark.name}() is there twice")
            seen.add(mark.name)
            self._fits(mark, node, name)
        for low, high in (("minLength", "maxLength"), ("minValue", "maxValue")):
            least, most = (_number(marks, key) for key in (low, high))
            if least is not None and most is not None and least > most:
                self.problem(marks[0].line, "range", f"{name}: {low} is above {high}")

    def _fits(self, mark: s.Call, node: s.Node | None, name: str) -> None:
        fits = DECORATORS[mark.name]
        if mark.name.startswith(("min", "max")):
            arg = mark.args[0] if len(mark.args) == 1 else None
            if arg is None or t.mismatch(self.infer.of(arg), t.INT):
                self.problem(mark.line, "arguments", f"@{mark.name}() takes one number")
        elif mark.name == "description" and mark.args:
            self.infer.check(mark.args[0], t.STRING)
        if fits is None:
            return
        kind = self.types.of(node, self.file) if node is not None else t.NULL
        if kind != t.ANY and not any(isinstance(one, fits) for one in t.parts(kind)):
            message = f"@{mark.name}() does not fit {name}, which is {t.show(kind)}"
            self.problem(mark.line, "decorator", message)

    # ---- modules

    def _module(self, one: s.Module) -> None:
        there = self.types.folder.files.get(self.file.sibling(one.path))
        loop, test, body = s.loop_parts(one.value)
        local = self.infer.loop(loop, {}) if loop else {}
        if test is not None:
            self.infer.check(test, t.BOOL, local, "condition")
        if not isinstance(body, s.Object):
            self.problem(one.line, "type", "a module's value is an object")
            return
        known = {"name", "scope", "params", "dependsOn", "extensionConfigs", "identity"}
        for member in body.properties:
            key = str(member.key)
            if key not in known:
                hint = t.nearest(key, sorted(known))
                self.problem(member.line, "unknown-property", f"a module has no '{key}'{hint}")
        if name := body.get("name"):
            self.infer.check(name.value, t.STRING, local, "name")
        self.resources.depends_on(body, local)
        params = body.get("params")
        if there:
            self._scope(one, body, there, local)
            asked = self.types.params(there)
            if params:
                self.infer.check(params.value, asked, local)
            elif needed := [key for key, member in asked.fields.items() if member.required]:
                self.problem(one.line, "missing", f"{there.name} needs {', '.join(needed)}")
        elif params:
            self.infer.of(params.value, local)

    def _scope(
        self, one: s.Module, body: s.Object, there: File, local: Mapping[str, t.Type]
    ) -> None:
        scope = body.get("scope")
        if scope is None:
            if there.scope != self.file.scope:
                message = f"{there.name} is for a {there.scope}: the scope is missing"
                self.problem(one.line, "scope", message)
            return
        given = self.resources.scope_of(scope.value, local)
        if given and given != there.scope:
            message = f"{there.name} is for a {there.scope}, this is a {given}"
            self.problem(scope.line, "scope", message)


def _empty(node: s.Node) -> bool:
    return (isinstance(node, s.Literal) and node.value == "") or (
        isinstance(node, s.Call) and node.name == "newGuid"
    )


def _number(marks: tuple[s.Call, ...], name: str) -> int | None:
    for mark in marks:
        if mark.name == name and mark.args and isinstance(mark.args[0], s.Literal):
            value = mark.args[0].value
            return value if isinstance(value, int) else None
    return None
