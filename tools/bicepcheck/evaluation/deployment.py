"""Thinks a deployment through: every resource with its members, as far as they can be known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tools.bicepcheck.evaluation.functions import call, is_true
from tools.bicepcheck.evaluation.operators import binary, index, member, unary
from tools.bicepcheck.evaluation.values import Deployed, Given, Lined, Made, Outputs, text_of
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder
from tools.bicepcheck.reading.newer import SPREAD
from tools.bicepcheck.types.declared import limits_of

Locals = Mapping[str, Any]


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
            self.outputs = main.outputs()

    def of(self, *types: str) -> list[Deployed]:
        """Return the resources of some types that the deployment makes."""
        return [one for one in self.resources if one.type in types and not one.existing]

    def same(self, one: Deployed) -> Deployed:
        """Return the made resource that an existing one is, or itself."""
        for made in self.resources:
            if made is one:
                break
            alike = made.type == one.type and not made.existing and _same(made.name, one.name)
            if alike and (one.parent is None or made.parent is one.parent):
                return made
        return one


def _same(left: Any, right: Any) -> bool:
    return left is not None and left == right


class Environment:
    """One file, with the values of its parameters."""

    def __init__(self, whole: Deployment, file: File, params: Mapping[str, Any]) -> None:
        self.whole = whole
        self.file = file
        self.params = params
        self._values: dict[str, Any] = {}
        self._open: set[str] = set()

    def deploy(self) -> None:
        """Think through all resources and modules."""
        for one in self.file.declarations:
            if isinstance(one, s.Resource | s.Module):
                self.symbol(one.name)

    def outputs(self) -> dict[str, Any]:
        """Return the outputs by name."""
        return {one.name: self.value(one.value) for one in self.file.all(s.Output)}

    def symbol(self, name: str) -> Any:
        """Return what a name of the file stands for."""
        if name in self._values:
            return self._values[name]
        if name in self._open or name not in self.file.symbols:
            return Made("unknown", (name,))
        self._open.add(name)
        self._values[name] = self._declared(self.file.symbols[name])
        self._open.discard(name)
        return self._values[name]

    def _declared(self, one: s.Declaration) -> Any:
        match one:
            case s.Param():
                return self._param(one)
            case s.Var():
                return self.value(one.value)
            case s.Resource() | s.Module():
                return self._made(one, None)
        return Made("unknown", (one.name,))

    def _param(self, one: s.Param) -> Any:
        secret = any(mark.name == "secure" for mark in one.decorators)
        if one.name in self.params and not (secret and self.params[one.name] is None):
            return self.params[one.name]
        if one.default is not None:
            return self.value(one.default)
        return Given(one.name, secret, limits_of(one.decorators).get("maxLength"))

    def _made(self, one: s.Resource | s.Module, outer: Deployed | None) -> Any:
        loop, test, body = s.loop_parts(one.value)
        if not isinstance(body, s.Object):
            return Made("unknown", (one.name,))
        if loop is None:
            return self._one(one, body, test, outer, {})
        source = self.value(loop.source)
        if not isinstance(source, list):
            source = [Made("item", (loop.item,))]
        made = []
        for at, item in enumerate(source):
            local = {loop.item: item}
            if loop.index:
                local[loop.index] = at
            made.append(self._one(one, body, test, outer, local))
        return made

    def _one(
        self,
        one: s.Resource | s.Module,
        body: s.Object,
        test: s.Node | None,
        outer: Deployed | None,
        local: Locals,
    ) -> Any:
        if test is not None and is_true(self.value(test, local)) is False:
            return None
        if isinstance(one, s.Module):
            return self._module(one, body, local)
        return self._resource(one, body, outer, local)

    def _module(self, one: s.Module, body: s.Object, local: Locals) -> Any:
        there = self.whole.folder.files.get(self.file.sibling(one.path))
        if there is None:
            return Made("module", (one.name,))
        params = body.get("params")
        values = self.value(params.value, local) if params else {}
        inner = Environment(self.whole, there, values if isinstance(values, Mapping) else {})
        self.whole.modules[one.name] = inner
        inner.deploy()
        outputs = {out.name: out for out in there.all(s.Output)}

        def read(name: str) -> Any:
            return inner.value(outputs[name].value) if name in outputs else Made("none", (name,))

        return Outputs(read)

    def _resource(
        self, one: s.Resource, body: s.Object, outer: Deployed | None, local: Locals
    ) -> Deployed:
        kind = one.type.split("@")[0]
        made = Deployed(
            type=f"{outer.type}/{kind}" if outer else kind,
            symbol=one.name,
            file=self.file.name,
            line=one.line,
            existing=one.existing,
        )
        made.parent = outer
        if not local and outer is None:
            self._values[one.name] = made
        self.whole.resources.append(made)
        for key in ("parent", "scope", "name"):
            if member := body.get(key):
                value = self.value(member.value, local)
                if key != "parent" or isinstance(value, Deployed):
                    setattr(made, key, value)
        if one.existing:
            found = self.whole.same(made)
            if found is not made:
                self.whole.resources.remove(made)
            made = found
            if not local and outer is None:
                self._values[one.name] = made
        else:
            value = self.value(
                s.Object(
                    line=body.line,
                    properties=tuple(
                        p for p in body.properties if p.key not in {"parent", "scope"}
                    ),
                ),
                local,
            )
            made.body = value
        for inner in body.resources:
            self._made(inner, made)
        return made

    def value(self, node: s.Node, local: Locals | None = None) -> Any:
        """Return the value of an expression."""
        local = local or {}
        match node:
            case s.Literal():
                return node.value
            case s.Text():
                parts = [p if isinstance(p, str) else self.value(p, local) for p in node.parts]
                return text_of(parts)
            case s.Name():
                return local[node.name] if node.name in local else self.symbol(node.name)
            case s.Member():
                return member(self.value(node.of, local), node.name)
            case s.Index():
                return index(self.value(node.of, local), self.value(node.at, local))
            case s.Sure():
                return self.value(node.of, local)
            case s.Nested():
                return self._nested(node, local)
            case s.Call():
                return self._call(node, local)
            case s.Unary():
                return unary(node.op, self.value(node.of, local))
            case s.Binary():
                return self._binary(node, local)
            case s.Choice():
                test = is_true(self.value(node.test, local))
                return self.value(node.no if test is False else node.yes, local)
            case s.Array():
                return self._array(node, local)
            case s.Object():
                return self._object(node, local)
            case s.For():
                source = self.value(node.source, local)
                items = source if isinstance(source, list) else [Made("item", (node.item,))]
                return [
                    self.value(node.body, {**local, node.item: item, (node.index or ""): at})
                    for at, item in enumerate(items)
                ]
            case s.If():
                return self.value(node.body, local)
        return Made("unknown", ())

    def _array(self, node: s.Array, local: Locals) -> list[Any]:
        made: list[Any] = []
        for item in node.items:
            if isinstance(item, s.Spread):
                value = self.value(item.of, local)
                made += value if isinstance(value, list) else [Made("item", ())]
            else:
                made.append(self.value(item, local))
        return made

    def _object(self, node: s.Object, local: Locals) -> Lined:
        made = Lined(node.line)
        for one in node.properties:
            if one.key == SPREAD:
                value = self.value(one.value, local)
                if isinstance(value, Mapping):
                    made.update(value)
                    made.lines.update(dict.fromkeys(value, one.line))
                continue
            key = one.key if isinstance(one.key, str) else self.value(one.key, local)
            made[key] = self.value(one.value, local)
            made.lines[key] = one.line
        return made

    def _nested(self, node: s.Nested, local: Locals) -> Any:
        of = self.value(node.of, local)
        for one in self.whole.resources:
            if one.symbol == node.name and one.parent is of:
                return one
        return Made("unknown", (node.name,))

    def _call(self, node: s.Call, local: Locals) -> Any:
        if node.name.startswith("load") and len(node.args) == 1:
            return self._load(node)
        args: list[Any] = []
        for arg in node.args:
            if isinstance(arg, s.Lambda):
                args.append(self._lambda(arg, local))
            else:
                args.append(self.value(arg, local))
        if isinstance(node.of, s.Node) and not isinstance(node.of, s.Name):
            return Made(node.name, ())
        if isinstance(node.of, s.Name) and node.of.name in self.file.symbols:
            return Made(node.name, (self.value(node.of, local),))
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
            return Made("file", (path,))

    def _binary(self, node: s.Binary, local: Locals) -> Any:
        left = self.value(node.left, local)
        if node.op == "??" and left is not None:
            return left
        return binary(node.op, left, self.value(node.right, local))
