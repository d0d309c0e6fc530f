"""Rules about declarations: parameters, outputs, functions, decorators and modules."""

from __future__ import annotations

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File
from tools.bicepcheck.rules.resources import Resources
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types.calls import IN_DEFAULT
from tools.bicepcheck.types.declared import Types, limits_of
from tools.bicepcheck.types.functions import DECORATORS
from tools.bicepcheck.types.infer import Inference, Locals

_MODULE_MEMBERS = ("dependsOn", "extensionConfigs", "identity", "name", "params", "scope")


class Declarations:
    """The check of one file."""

    def __init__(self, file: File, types: Types, inference: Inference) -> None:
        self.file = file
        self.types = types
        self.infer = inference
        self.problem = inference.problem
        self.resources = Resources(file, inference)

    def check(self) -> None:
        """Report what is wrong with the file's declarations."""
        for one in self.file.declarations:
            if isinstance(one, s.Declaration):
                self._decorators(one)
            match one:
                case s.Param():
                    self._param(one)
                case s.Var(type=s.Node() as kind):
                    expected = self.types.of(kind, self.file, one.decorators)
                    self.infer.check(one.value, expected, label=one.name)
                case s.Var():
                    self.infer.symbol(one.name)
                case s.Output():
                    expected = self.types.of_declaration(one, self.file)
                    self.infer.check(one.value, expected, label=one.name)
                case s.TypeAlias():
                    self.types.of_declaration(one, self.file)
                case s.Function():
                    local = {name: self.types.of(kind, self.file) for name, kind in one.params}
                    returns = self.types.of(one.returns, self.file)
                    self.infer.check(one.body, returns, local, one.name)
                case s.Resource():
                    self.resources.check(one, None)
                case s.Module():
                    self._module(one)
                case s.Metadata():
                    self.infer.of(one.value)

    def _param(self, one: s.Param) -> None:
        kind = self.types.of_declaration(one, self.file)
        if one.default is None:
            return
        self.infer.check(one.default, kind, {IN_DEFAULT: t.ANY}, one.name)
        match one.default:
            case s.Literal(value="") | s.Call(name="newGuid"):
                return
        if one.has("secure"):
            message = f"the secret '{one.name}' has a default, which anyone can read; delete it"
            self.problem(one.line, "secret-default", message)

    def _decorators(self, one: s.Declaration) -> None:
        kind = one.type if isinstance(one, s.Param | s.Output | s.TypeAlias) else None
        self._check_decorators(one.decorators, kind, one.name)
        for node in s.walk(one, s.Property):
            self._check_decorators(node.decorators, node.value, str(node.key))

    def _check_decorators(
        self, decorators: tuple[s.Call, ...], node: s.Node | None, name: str
    ) -> None:
        seen: set[str] = set()
        for one in decorators:
            if one.name not in DECORATORS:
                message = f"there is no decorator @{one.name}(){t.suggestion(one.name, DECORATORS)}"
                self.problem(one.line, "unknown-decorator", message)
                continue
            if one.name in seen:
                message = f"{name} has @{one.name}() twice; delete one"
                self.problem(one.line, "declared-twice", message)
            seen.add(one.name)
            self._applies(one, node, name)
        limits = limits_of(decorators)
        for low, high in (("minLength", "maxLength"), ("minValue", "maxValue")):
            if low in limits and high in limits and limits[low] > limits[high]:
                message = f"{name}: {low} {limits[low]} is above {high} {limits[high]}"
                self.problem(decorators[0].line, "range", message)

    def _applies(self, one: s.Call, node: s.Node | None, name: str) -> None:
        if one.name.startswith(("min", "max")):
            arg = one.args[0] if len(one.args) == 1 else None
            if arg is None or t.mismatch(self.infer.of(arg), t.INT):
                self.problem(one.line, "arguments", f"@{one.name}() takes one number")
        elif one.name == "description" and one.args:
            self.infer.check(one.args[0], t.STRING)
        applies = DECORATORS[one.name]
        kind = self.types.of(node, self.file) if node is not None else t.NULL
        if applies and kind != t.ANY and not any(isinstance(x, applies) for x in t.parts(kind)):
            message = f"@{one.name}() does not apply to {name}, which is of type {kind}"
            self.problem(one.line, "decorator", message)

    def _module(self, one: s.Module) -> None:
        there = self.types.folder.module(self.file, one)
        local = self.infer.loop(one.loop, {})
        if one.test is not None:
            self.infer.check(one.test, t.BOOL, local, "condition")
        body = one.body
        if not isinstance(body, s.Object):
            self.problem(one.line, "type", "the value of a module must be an object")
            return
        for member in body.properties:
            key = str(member.key)
            if key not in _MODULE_MEMBERS:
                message = f"a module has no '{key}'{t.suggestion(key, _MODULE_MEMBERS)}"
                self.problem(member.line, "unknown-property", message)
        if name := body.get("name"):
            self.infer.check(name.value, t.STRING, local, "name")
        self.resources.depends_on(body, local)
        params = body.get("params")
        if there is None:
            if params:
                self.infer.of(params.value, local)
            return
        self._scope(one, body, there, local)
        expected = self.types.params(there)
        if params:
            self.infer.check(params.value, expected, local)
        elif needed := [key for key, member in expected.fields.items() if member.required]:
            message = f"{there.name} requires {', '.join(needed)}; set them in params"
            self.problem(one.line, "missing", message)

    def _scope(self, one: s.Module, body: s.Object, there: File, local: Locals) -> None:
        scope = body.get("scope")
        given = self.resources.scope_of(scope.value, local) if scope else self.file.scope
        if given and given != there.scope:
            message = f"{there.name} deploys to a {there.scope}, but its scope is a {given}"
            self.problem((scope or one).line, "scope", message)
