"""Infers the types that function calls return, and checks their arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types.functions import (
    FILE_FUNCTIONS,
    FUNCTIONS,
    PARAM_DEFAULT_FUNCTIONS,
    RESOURCE_FUNCTIONS,
    Signature,
)

if TYPE_CHECKING:
    from tools.bicepcheck.types.infer import Inference

Locals = Mapping[str, t.Type]
IN_DEFAULT = "*default"
"""A local name that no file can declare: the expression is the default of a parameter."""


class Calls:
    """The calls in one file's expressions."""

    def __init__(self, inference: Inference) -> None:
        self.infer = inference
        self.file = inference.file
        self.problem = inference.problem

    def of(self, node: s.Call, local: Locals) -> t.Type:
        """Return the type that a call returns."""
        of = node.of
        if of is not None and not (isinstance(of, s.Name) and of.name in {"sys", "az"}):
            return self._method(node, of, local)
        own = self.file.symbols.get(node.name) if of is None else None
        if isinstance(own, s.Function):
            return self._user_defined(node, own, local)
        signature = FUNCTIONS.get(node.name)
        if signature is None:
            hint = t.suggestion(node.name, FUNCTIONS)
            message = f"there is no function '{node.name}()'{hint}"
            self.problem(node.line, "unknown-function", message)
            for arg in node.args:
                self.infer.of(arg, local)
            return t.ANY
        if not signature.accepts(len(node.args)):
            message = f"{node.name}() does not take {len(node.args)} arguments"
            self.problem(node.line, "arguments", message)
        if node.name in PARAM_DEFAULT_FUNCTIONS and IN_DEFAULT not in local:
            message = f"{node.name}() is allowed only in the default of a parameter; move it there"
            self.problem(node.line, "changes-each-time", message)
        args = self._arguments(node, signature, local)
        if node.name in FILE_FUNCTIONS:
            return self._file(node, signature.returns)
        return _result(node.name, args, signature.returns) if args else signature.returns

    def _user_defined(self, node: s.Call, own: s.Function, local: Locals) -> t.Type:
        for arg, (_, kind) in zip(node.args, own.params, strict=False):
            self.infer.check(arg, self.infer.types.of(kind, self.file), local, node.name)
        if len(node.args) != len(own.params):
            message = f"{node.name}() takes {len(own.params)} arguments, not {len(node.args)}"
            self.problem(node.line, "arguments", message)
        return self.infer.types.of(own.returns, self.file)

    def _arguments(self, node: s.Call, signature: Signature, local: Locals) -> list[t.Type]:
        found: list[t.Type] = []
        for at, arg in enumerate(node.args):
            if isinstance(arg, s.Lambda):
                item = t.item_of(found[0]) if found else t.ANY
                params = {"map": [item, t.INT], "filter": [item, t.INT], "reduce": [t.ANY, item]}
                kinds = [*params.get(node.name, [item, item]), t.INT]
                kind = self.infer.of(
                    arg.body, {**local, **dict(zip(arg.params, kinds, strict=False))}
                )
                expected: t.Type = t.BOOL if node.name == "filter" else t.ANY
            else:
                kind, expected = self.infer.of(arg, local), signature.argument(at)
            if why := t.mismatch(kind, expected):
                self.problem(arg.line, "type", f"{node.name}(): {why}")
            found.append(kind)
        return found

    def _file(self, node: s.Call, returns: t.Type) -> t.Type:
        arg = node.args[0] if node.args else None
        if not isinstance(arg, s.Literal) or not isinstance(arg.value, str):
            return returns
        path = self.file.sibling(arg.value)
        if not path.is_file():
            self.problem(node.line, "no-file", f"can't read {arg.value}; is the path right?")
            return t.ANY
        if node.name != "loadJsonContent" or len(node.args) > 1:
            return returns
        try:
            return t.of_value(json.loads(path.read_text(encoding="utf-8")), arg.value)
        except ValueError as error:
            self.problem(node.line, "syntax", f"{arg.value} is not valid JSON: {error}")
            return t.ANY

    def _method(self, node: s.Call, of: s.Node, local: Locals) -> t.Type:
        for arg in node.args:
            self.infer.of(arg, local)
        if isinstance(of, s.Name) and of.name in self.file.wildcards:
            return t.ANY
        owner = self.infer.of(of, local)
        if isinstance(owner, t.ResourceType) and node.name not in RESOURCE_FUNCTIONS:
            message = f"{owner} has no function '{node.name}()'"
            self.problem(node.line, "unknown-function", message)
        return t.ANY


def _result(name: str, args: list[t.Type], default: t.Type) -> t.Type:
    """Return a type that is narrower than the declared one, where the arguments tell it."""
    first = args[0]
    lists = all(isinstance(one, t.Arr) for one in args)
    match name:
        case "map" if len(args) > 1:
            return t.Arr(of=args[1])
        case "filter" | "sort":
            return first
        case "first" | "last" if isinstance(first, t.Arr):
            return first.of
        case "take" | "skip":
            return first if isinstance(first, t.Arr) else t.STRING
        case "concat" | "union" if lists:
            return t.Arr(of=t.union([t.item_of(one) for one in args]))
        case "concat" if all(isinstance(one, t.Str | t.Int) for one in args):
            return t.STRING
        case "union":
            objects = [one for one in args if isinstance(one, t.Obj)]
            if len(objects) == len(args):
                fields = {key: one for obj in objects for key, one in obj.fields.items()}
                more = [one.additional for one in objects if one.additional is not None]
                return t.Obj(fields=fields, additional=t.union(more) if more else None)
        case "toLower" | "toUpper" if isinstance(first, t.Str) and first.value:
            return t.Str(value=first.value.lower() if name == "toLower" else first.value.upper())
    return default
