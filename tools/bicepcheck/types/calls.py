"""The types of what functions give, and whether their arguments fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types.functions import DEFAULTS_ONLY, FILES, FUNCTIONS, RESOURCE_FUNCTIONS

if TYPE_CHECKING:
    from tools.bicepcheck.types.infer import Inference

Locals = Mapping[str, t.Type]


class Calls:
    """Calls among the expressions of one file."""

    def __init__(self, inference: Inference) -> None:
        self.infer = inference

    def of(self, node: s.Call, local: Locals) -> t.Type:
        """Return the type of what a call gives."""
        if isinstance(node.of, s.Name) and node.of.name in {"sys", "az"}:
            node = s.Call(line=node.line, name=node.name, of=None, args=node.args)
        if node.of is not None:
            return self._method(node, node.of, local)
        own = self.infer.file.symbols.get(node.name)
        if isinstance(own, s.Function):
            for arg, (_, kind) in zip(node.args, own.params, strict=False):
                self.infer.check(
                    arg, self.infer.types.of(kind, self.infer.file, ()), local, node.name
                )
            if len(node.args) != len(own.params):
                self.infer.problem(node.line, "arguments", f"{node.name} takes {len(own.params)}")
            return self.infer.types.of(own.returns, self.infer.file, ())
        signature = FUNCTIONS.get(node.name)
        if signature is None:
            hint = t.nearest(node.name, list(FUNCTIONS))
            self.infer.problem(node.line, "unknown-function", f"there is no '{node.name}()'{hint}")
            for arg in node.args:
                self.infer.of(arg, local)
            return t.ANY
        count = len(node.args)
        if count < signature.least or (signature.rest is None and count > len(signature.args)):
            self.infer.problem(
                node.line, "arguments", f"{node.name}() can't take {count} arguments"
            )
        if node.name in DEFAULTS_ONLY and local.get("*default") is None:
            message = f"{node.name}() may stand in the default of a parameter only"
            self.infer.problem(node.line, "changes-each-time", message)
        return self._result(node, self._arguments(node, local))

    def _arguments(self, node: s.Call, local: Locals) -> list[t.Type]:
        signature, given = FUNCTIONS[node.name], []
        item: t.Type = t.ANY
        for at, arg in enumerate(node.args):
            asked = signature.args[at] if at < len(signature.args) else signature.rest or t.ANY
            if isinstance(arg, s.Lambda):
                inner = dict(local)
                kinds = [item, t.INT] if node.name in {"map", "filter"} else [item, item]
                if node.name == "reduce":
                    kinds = [t.ANY, item]
                inner.update(zip(arg.params, [*kinds, t.INT], strict=False))
                kind = self.infer.of(arg.body, inner)
                if node.name == "filter" and (why := t.mismatch(kind, t.BOOL)):
                    self.infer.problem(arg.line, "type", f"filter: {why}")
            else:
                kind = self.infer.of(arg, local)
                if why := t.mismatch(kind, asked):
                    self.infer.problem(arg.line, "type", f"{node.name}(): {why}")
            if at == 0:
                item = item_of(kind)
            given.append(kind)
        return given

    def _result(self, node: s.Call, given: list[t.Type]) -> t.Type:
        gives = FUNCTIONS[node.name].gives
        if node.name in FILES:
            return self._file(node, gives)
        if not given:
            return gives
        match node.name:
            case "map" if len(given) > 1:
                return t.Arr(of=given[1])
            case "filter" | "sort":
                return given[0]
            case "first" | "last" if isinstance(given[0], t.Arr):
                return given[0].of
            case "take" | "skip":
                return t.Arr(of=item_of(given[0])) if isinstance(given[0], t.Arr) else t.STRING
            case "concat" if all(isinstance(one, t.Arr) for one in given):
                return t.Arr(of=t.union([item_of(one) for one in given]))
            case "concat" if all(isinstance(one, t.Str | t.Int) for one in given):
                return t.STRING
            case "union" if all(isinstance(one, t.Arr) for one in given):
                return t.Arr(of=t.union([item_of(one) for one in given]))
            case "union" if objects := [one for one in given if isinstance(one, t.Obj)]:
                if len(objects) == len(given):
                    fields = {key: one for obj in objects for key, one in obj.fields.items()}
                    rests = [one.rest for one in objects if one.rest is not None]
                    return t.Obj(fields=fields, rest=t.union(rests) if rests else None)
            case "toLower" | "toUpper" if isinstance(given[0], t.Str) and given[0].value:
                text = given[0].value
                return t.Str(value=text.lower() if node.name == "toLower" else text.upper())
        return gives

    def _file(self, node: s.Call, gives: t.Type) -> t.Type:
        arg = node.args[0] if node.args else None
        if not isinstance(arg, s.Literal) or not isinstance(arg.value, str):
            return gives
        path = self.infer.file.sibling(arg.value)
        if not path.is_file():
            self.infer.problem(node.line, "no-file", f"there is no {arg.value}")
            return t.ANY
        if node.name != "loadJsonContent" or len(node.args) > 1:
            return gives
        try:
            return of_value(json.loads(path.read_text(encoding="utf-8")), arg.value)
        except ValueError as error:
            self.infer.problem(node.line, "syntax", f"{arg.value} is no JSON: {error}")
            return t.ANY

    def _method(self, node: s.Call, of: s.Node, local: Locals) -> t.Type:
        for arg in node.args:
            self.infer.of(arg, local)
        if isinstance(of, s.Name) and of.name in self.infer.file.wildcards:
            return t.ANY
        owner = self.infer.of(of, local)
        if isinstance(owner, t.ResourceType) and node.name not in RESOURCE_FUNCTIONS:
            self.infer.problem(node.line, "unknown-function", f"{owner.kind} has no {node.name}()")
        return t.ANY


def of_value(value: object, name: str = "object") -> t.Type:
    """Return the type of a value of JSON."""
    match value:
        case bool() | int() | str() | None:
            return t.of_literal(value)
        case list():
            return t.Arr(of=t.union([of_value(one) for one in value]) if value else t.ANY)
        case dict():
            fields = {key: t.Field(type=of_value(one), required=True) for key, one in value.items()}
            return t.Obj(fields=fields, name=name)
    return t.ANY


def item_of(kind: t.Type) -> t.Type:
    """Return the type of an item of a list."""
    if isinstance(kind, t.Arr):
        return kind.of
    if isinstance(kind, t.Union):
        items = [item_of(one) for one in kind.of if isinstance(one, t.Arr)]
        return t.union(items) if items else t.ANY
    return t.ANY
