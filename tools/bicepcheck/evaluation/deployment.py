"""Evaluates a deployment: every resource with its members, as far as they can be known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tools.bicepcheck.evaluation.functions import call, truth
from tools.bicepcheck.evaluation.operators import binary, index, member, unary
from tools.bicepcheck.evaluation.values import (
    Computed,
    Deployed,
    Input,
    Located,
    ModuleOutputs,
    text_of,
)
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder
from tools.bicepcheck.reading.modern import SPREAD
from tools.bicepcheck.types.declared import limits_of

Locals = Mapping[str, Any]
NO_LOCALS: Locals = {}


class Deployment:
    """All resources of a folder under one set of parameters."""

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
        deployment: Deployment,
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
        """Evaluate all resources and modules."""
        for one in self.file.declarations:
            if isinstance(one, s.Deployable):
                self.symbol(one.name)

    def symbol(self, name: str) -> Any:
        """Return the value of a name of the file."""
        if name not in self._values:
            if name in self._evaluating or name not in self.file.symbols:
                return Computed("unknown", (name,))
            self._evaluating.add(name)
            self._values[name] = self._declared(self.file.symbols[name])
            self._evaluating.discard(name)
        return self._values[name]

    def _declared(self, one: s.Declaration) -> Any:
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
        return Input(one.name, secret, limits_of(one.decorators).get("maxLength"))

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
        items = source if isinstance(source, list) else [Computed("item", (loop.item,))]
        return [{**local, loop.item: item, (loop.index or ""): at} for at, item in enumerate(items)]

    def _deploy(
        self, one: s.Deployable, body: s.Object, outer: Deployed | None, local: Locals
    ) -> Any:
        if one.test is not None and truth(self.value(one.test, local)) is False:
            return None
        if isinstance(one, s.Resource):
            return self._resource(one, body, outer, local)
        there = self.deployment.folder.module(self.file, one) if isinstance(one, s.Module) else None
        if there is None:
            return Computed("module", (one.name,))
        params = body.get("params")
        values = self.value(params.value, local) if params else {}
        scope = self.value(prop.value, local) if (prop := body.get("scope")) else None
        inner = Environment(
            self.deployment,
            there,
            values if isinstance(values, Mapping) else {},
            scope if isinstance(scope, Computed) and scope.args else self.elsewhere,
        )
        self.deployment.modules[one.name] = inner
        inner.deploy()
        outputs = {out.name: out for out in there.all(s.Output)}

        def read(name: str) -> Any:
            return (
                inner.value(outputs[name].value) if name in outputs else Computed("none", (name,))
            )

        return ModuleOutputs(read)

    def _resource(
        self, one: s.Resource, body: s.Object, outer: Deployed | None, local: Locals
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
                        part if isinstance(part, str) else self.value(part, local)
                        for part in node.parts
                    ]
                )
            case s.Name():
                return local[node.name] if node.name in local else self.symbol(node.name)
            case s.Member():
                return member(self.value(node.of, local), node.name)
            case s.Index():
                return index(self.value(node.of, local), self.value(node.at, local))
            case s.NonNull():
                return self.value(node.of, local)
            case s.NestedAccess():
                of = self.value(node.of, local)
                found = [one for one in self.deployment.resources if one.parent is of]
                unknown = Computed("unknown", (node.name,))
                return next((one for one in found if one.symbol == node.name), unknown)
            case s.Call():
                return self._call(node, local)
            case s.Unary():
                return unary(node.op, self.value(node.of, local))
            case s.Binary():
                left = self.value(node.left, local)
                if node.op == "??" and left is not None:
                    return left
                return binary(node.op, left, self.value(node.right, local))
            case s.Ternary():
                holds = truth(self.value(node.test, local))
                return self.value(node.no if holds is False else node.yes, local)
            case s.Array():
                return self._array(node, local)
            case s.Object():
                return self._object(node, local)
            case s.For():
                return [self.value(node.body, inner) for inner in self._loop(node, local)]
            case s.If():
                return self.value(node.body, local)
        return Computed("unknown", ())

    def _array(self, node: s.Array, local: Locals) -> list[Any]:
        found: list[Any] = []
        for item in node.items:
            if isinstance(item, s.Spread):
                value = self.value(item.of, local)
                found += value if isinstance(value, list) else [Computed("item", ())]
            else:
                found.append(self.value(item, local))
        return found

    def _object(self, node: s.Object, local: Locals) -> Located:
        found = Located(node.line)
        for one in node.properties:
            if one.key == SPREAD:
                value = self.value(one.value, local)
                if isinstance(value, Mapping):
                    found.update(value)
                    found.lines.update(dict.fromkeys(value, one.line))
                continue
            key = one.key if isinstance(one.key, str) else self.value(one.key, local)
            found[key] = self.value(one.value, local)
            found.lines[key] = one.line
        return found

    def _call(self, node: s.Call, local: Locals) -> Any:
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
        return call(node.name, args)

    def _lambda(self, node: s.Lambda, local: Locals) -> Any:
        def run(*args: Any) -> Any:
            return self.value(node.body, {**local, **dict(zip(node.params, args, strict=False))})

        return run

    def _load(self, node: s.Call) -> Any:
        path = node.args[0].value if isinstance(node.args[0], s.Literal) else None
        try:
            text = self.file.sibling(str(path)).read_text(encoding="utf-8")
            return text if node.name == "loadTextContent" else json.loads(text)
        except (OSError, ValueError):
            return Computed("file", (path,))
