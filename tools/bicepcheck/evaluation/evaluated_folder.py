"""Evaluates a deployment: every resource with its members, as far as they can be known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tools.bicepcheck.evaluation.functions import FUNCTIONS, call, misfit, truth
from tools.bicepcheck.evaluation.operators import binary, index, member, operands, unary
from tools.bicepcheck.evaluation.shapes import (
    RESULTS,
    declared,
    faults,
    kind_of,
    limits_of,
    of_ref,
    params,
    suggestion,
)
from tools.bicepcheck.evaluation.values import (
    Computed,
    Deployed,
    Input,
    Located,
    ModuleOutputs,
    Ref,
    text_of,
)
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import SCOPES, File, Folder

Locals = Mapping[str, Any]
NO_LOCALS: Locals = {}


class EvaluatedFolder:
    """
    All resources of a folder under one set of parameters.

    What can't be evaluated as it is written goes to the folder's report.
    """

    def __init__(self, folder: Folder, params: Mapping[str, Any]) -> None:
        self.folder = folder
        self.resources: list[Deployed] = []
        self.outputs: dict[str, Any] = {}
        self.modules: dict[str, Environment] = {}
        if folder.main:
            main = Environment(self, folder.main, params)
            main.deploy()
            self.outputs = {one.name: main.value(one.value) for one in folder.main.all(s.Output)}

    @property
    def deployed(self) -> list[Deployed]:
        """The resources that the deployment creates."""
        return [one for one in self.resources if not one.existing]

    def of(self, *types: str) -> list[Deployed]:
        """Return the resources of some types that the deployment creates."""
        return [one for one in self.resources if one.type in types and not one.existing]

    def resolved(self, one: Deployed) -> Deployed:
        """Return the created resource that an existing one refers to, or *one* itself."""
        for other in self.of(one.type):
            same_name = other.name is not None and other.name == one.name
            if same_name and (one.parent is None or other.parent is one.parent):
                return other
        return one


class Environment:
    """
    One file, with the values of its parameters.

    *elsewhere* is the scope of its module, if that is a scope that the deployment does not create.
    """

    def __init__(
        self,
        deployment: EvaluatedFolder,
        file: File,
        params: Mapping[str, Any],
        elsewhere: Computed | None = None,
    ) -> None:
        self.deployment = deployment
        self.file = file
        self.params = params
        self.elsewhere = elsewhere
        self._values: dict[str, Any] = {}
        self._evaluating: set[str] = set()

    def deploy(self) -> None:
        """Evaluate all declarations."""
        for one in self.file.declarations:
            match one:
                case s.Output():
                    self._check(one, self.value(one.value), one.type)
                case s.Param(default=s.Node() as default):
                    self._check(one, self.value(default), one.type)
                case s.Var(type=s.Node() as kind):
                    self._check(one, self.symbol(one.name), kind)
                case s.Deployable() | s.Var():
                    self.symbol(one.name)
                case s.Metadata():
                    self.value(one.value)

    def fault(self, node: s.Node, code: str, message: str) -> None:
        """Report a node that can't be evaluated."""
        self.deployment.folder.report.add(self.file.name, node.line, code, message)

    def _check(self, one: s.Declaration, value: Any, kind: s.Node) -> None:
        """Report where a value does not fit the type of its declaration."""
        for _, code, message in faults(value, declared(kind, self.file, one.decorators)):
            self.fault(one, code, f"{one.name}: {message}")

    def _expect(self, node: s.Node, value: Any, kind: str) -> None:
        if kind_of(value) not in {None, kind}:
            self.fault(node, "type", f"expected {kind}, got {kind_of(value)}")

    def symbol(self, name: str) -> Any:
        """Return the value of a name of the file."""
        if name not in self._values:
            if name in self._evaluating or name not in self.file.symbols:
                return Computed("unknown", (name,))
            self._evaluating.add(name)
            origin = self.file.origin[name]
            imported = origin is not self.file
            there = Environment(self.deployment, origin, {}) if imported else self
            self._values[name] = there.declared(self.file.symbols[name])
            self._evaluating.discard(name)
        return self._values[name]

    def declared(self, one: s.Declaration) -> Any:
        """Return the value of a declaration of the file."""
        match one:
            case s.Param():
                return self._param(one)
            case s.Var():
                return self.value(one.value)
            case s.Deployable():
                return self._deployable(one, None)
        return Computed("unknown", (one.name,))

    def _param(self, one: s.Param) -> Any:
        secret = one.has("secure")
        if one.name in self.params and not (secret and self.params[one.name] is None):
            return self.params[one.name]
        if one.default is not None:
            return self.value(one.default)
        kind = declared(one.type, self.file).kind
        length = limits_of(one.decorators).get("maxLength")
        return Input(one.name, secret, length, None if kind == "any" else kind)

    def _deployable(self, one: s.Deployable, outer: Deployed | None) -> Any:
        """Return the resource or module; with a loop, a list of them."""
        loop, body = one.loop, one.body
        if not isinstance(body, s.Object):
            return Computed("unknown", (one.name,))
        if loop is None:
            return self._deploy(one, body, outer, NO_LOCALS)
        return [self._deploy(one, body, outer, local) for local in self._loop(loop, NO_LOCALS)]

    def _loop(self, loop: s.For, local: Locals) -> list[Locals]:
        """Return the local names of each turn of a loop."""
        source = self.value(loop.source, local)
        self._expect(loop.source, source, "array")
        items = source if isinstance(source, list) else [Computed("item", (loop.item,))]
        return [{**local, loop.item: item, (loop.index or ""): at} for at, item in enumerate(items)]

    def _deploy(
        self, one: s.Deployable, body: s.Object, outer: Deployed | None, local: Locals
    ) -> Any:
        if one.test is not None:
            holds = self.value(one.test, local)
            self._expect(one.test, holds, "bool")
            if truth(holds) is False:
                return None
        if isinstance(one, s.ResourceDeclaration):
            return self._resource(one, body, outer, local)
        there = self.deployment.folder.module(self.file, one) if isinstance(one, s.Module) else None
        if there is None:
            return Computed("module", (one.name,))
        given = body.get("params")
        values = self.value(given.value, local) if given else {}
        for path, code, message in faults(values, params(there)):
            lines = getattr(values, "lines", {})
            line = lines.get(path[0] if path else "", one.line)
            self.fault(s.Literal(line=line, value=None), code, f"{one.name}: {message}")
        scope = self.value(prop.value, local) if (prop := body.get("scope")) else None
        self._module_scope(one, scope, there)
        inner = Environment(
            self.deployment,
            there,
            values if isinstance(values, dict) else {},
            scope if isinstance(scope, Computed) and scope.args else self.elsewhere,
        )
        self.deployment.modules[one.name] = inner
        inner.deploy()
        outputs = {out.name: out for out in there.all(s.Output)}

        def read(name: str) -> Any:
            return (
                inner.value(outputs[name].value)
                if name in outputs
                else Computed("none", (name, *outputs, "name"))
            )

        return ModuleOutputs(read)

    def _module_scope(self, one: s.Deployable, scope: Any, there: File) -> None:
        match scope:
            case None:
                given = self.file.scope
            case Deployed(type="Microsoft.Resources/resourceGroups"):
                given = "resourceGroup"
            case Computed(function=name) if name in SCOPES:
                given = name
            case _:
                return
        if given != there.scope:
            message = f"{there.name} deploys to a {there.scope}, but its scope is a {given}"
            self.fault(one, "scope", message)

    def _resource(
        self, one: s.ResourceDeclaration, body: s.Object, outer: Deployed | None, local: Locals
    ) -> Deployed:
        kind = one.type.split("@")[0]
        resource = Deployed(
            type=f"{outer.type}/{kind}" if outer else kind,
            symbol=one.name,
            file=self.file.name,
            line=one.line,
            existing=one.existing,
            parent=outer,
            scope=self.elsewhere if one.existing else None,
        )
        single = not local and outer is None
        if single:
            self._values[one.name] = resource  # its members may read other members
        self.deployment.resources.append(resource)
        for key in ("parent", "scope", "name"):
            if prop := body.get(key):
                value = self.value(prop.value, local)
                if key != "parent" or isinstance(value, Deployed):
                    setattr(resource, key, value)
        if not one.existing:
            resource.body = self._object(body.without("parent", "scope"), local)
        elif (found := self.deployment.resolved(resource)) is not resource:
            self.deployment.resources.remove(resource)
            resource = found
            if single:
                self._values[one.name] = found
        for nested in body.resources:
            self._deployable(nested, resource)
        return resource

    def value(self, node: s.Node, local: Locals = NO_LOCALS) -> Any:
        """Return the value of an expression."""
        match node:
            case s.Literal():
                return node.value
            case s.Interpolation():
                return text_of(
                    [
                        part if isinstance(part, str) else self._text(part, local)
                        for part in node.parts
                    ]
                )
            case s.Name():
                return self._name(node, local)
            case s.Member():
                of = self.value(node.of, local)
                return self._read(node, of, node.name, member(of, node.name))
            case s.Index():
                of, at = self.value(node.of, local), self.value(node.at, local)
                found = index(of, at)
                return self._read(node, of, at, found) if isinstance(at, str) else found
            case s.NestedAccess():
                of = self.value(node.of, local)
                found = [one for one in self.deployment.resources if one.parent is of]
                unknown = Computed("unknown", (node.name,))
                return next((one for one in found if one.symbol == node.name), unknown)
            case s.Invocation():
                return self._call(node, local)
            case s.Unary():
                value = self.value(node.of, local)
                self._expect(node, value, "bool" if node.op == "!" else "int")
                return unary(node.op, value)
            case s.Binary():
                left = self.value(node.left, local)
                if node.op == "??" and left is not None:
                    return left
                right = self.value(node.right, local)
                if why := operands(node.op, kind_of(left), kind_of(right)):
                    self.fault(node, "type", why)
                return binary(node.op, left, right)
            case s.Ternary():
                test = self.value(node.test, local)
                self._expect(node.test, test, "bool")
                return self.value(node.no if truth(test) is False else node.yes, local)
            case s.Array():
                return [self.value(item, local) for item in node.items]
            case s.Object():
                return self._object(node, local)
        return Computed("unknown", ())

    def _name(self, node: s.Name, local: Locals) -> Any:
        if node.name in local:
            return local[node.name]
        if node.name not in self.file.symbols and node.name not in self.file.wildcards:
            hint = suggestion(node.name, [*self.file.symbols, *local])
            self.fault(node, "unknown-name", f"'{node.name}' is not declared{hint}")
        elif node.name in self._evaluating and node.name not in self._values:
            self.fault(node, "cycle", f"'{node.name}' depends on itself; break the cycle")
        return self.symbol(node.name)

    def _text(self, node: s.Node, local: Locals) -> Any:
        value = self.value(node, local)
        if kind_of(value) in {"array", "object"}:
            message = f"a string can't contain an {kind_of(value)}; use one of its members"
            self.fault(node, "type", message)
        return value

    def _read(self, node: s.Member | s.Index, of: Any, name: str, found: Any) -> Any:
        """Return a member that was *found*, and report one that can't be there."""
        known: Any = ()
        match of:
            case None:
                if not _is_guarded(node) and name not in {"id", "name"}:
                    message = f"the value with '{name}' may be null: read it with .?"
                    self.fault(node, "may-be-null", message)
            case dict():
                known = () if node.safe else of
            case Computed(function=function) if function in RESULTS:
                known = RESULTS[function].split()
            case ModuleOutputs() if isinstance(found, Computed) and found.function == "none":
                known = [*found.args[1:], ""]
        if isinstance(found, Ref) and found.path:
            shape = of_ref(found, last=-1)
            name, known = found.path[-1], () if shape.rest else shape.members
        if known and name not in known:
            message = f"there is no '{name}'{suggestion(name, known)}"
            self.fault(node, "unknown-member", message)
        return found

    def _object(self, node: s.Object, local: Locals) -> Located:
        found = Located(node.line)
        for one in node.properties:
            key = one.key if isinstance(one.key, str) else self.value(one.key, local)
            found[key] = self.value(one.value, local)
            found.lines[key] = one.line
        return found

    def _call(self, node: s.Invocation, local: Locals) -> Any:
        if node.name.startswith("load") and len(node.args) == 1:
            return self._load(node)
        args = [
            self._lambda(arg, local) if isinstance(arg, s.Lambda) else self.value(arg, local)
            for arg in node.args
        ]
        if isinstance(node.of, s.Node) and not isinstance(node.of, s.Name):
            return Computed(node.name, ())
        if isinstance(node.of, s.Name) and node.of.name in self.file.symbols:
            return Computed(node.name, (self.value(node.of, local),))
        if node.name not in FUNCTIONS:
            hint = suggestion(node.name, FUNCTIONS)
            self.fault(node, "unknown-function", f"there is no function '{node.name}()'{hint}")
        elif why := misfit(node.name, [None if callable(x) else kind_of(x) for x in args]):
            self.fault(node, "type", f"{node.name}(): {why}")
        return call(node.name, args)

    def _lambda(self, node: s.Lambda, local: Locals) -> Any:
        def run(*args: Any) -> Any:
            return self.value(node.body, {**local, **dict(zip(node.params, args, strict=False))})

        return run

    def _load(self, node: s.Invocation) -> Any:
        path = node.args[0].value if isinstance(node.args[0], s.Literal) else None
        try:
            text = self.file.sibling(str(path)).read_text(encoding="utf-8")
            return text if node.name == "loadTextContent" else json.loads(text)
        except (OSError, ValueError) as error:
            self.fault(node, "no-file", f"can't read {path}: {error}")
            return Computed("file", (path,))


def _is_guarded(node: s.Node) -> bool:
    """Return whether a chain contains .?, which skips the rest of the chain for null."""
    while isinstance(node, s.Member | s.Index):
        if node.safe:
            return True
        node = node.of
    return False
