"""Checks expressions against expected types, down to every member of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.modern import SPREAD
from tools.bicepcheck.types import kinds as t

if TYPE_CHECKING:
    from tools.bicepcheck.types.infer import Inference

Locals = Mapping[str, t.Type]


class Fit:
    """The check of one file's expressions."""

    def __init__(self, inference: Inference) -> None:
        self.infer = inference
        self.problem = inference.problem

    def check(self, node: s.Node, expected: t.Type, local: Locals, label: str) -> None:
        """Report where *node* does not fit *expected*; *label* names what it is."""
        lists = [one for one in t.parts(expected) if isinstance(one, t.Arr)]
        match node:
            case s.Object() if variant := self._variant(node, expected):
                self._object(node, variant, local)
            case s.Array() if lists:
                for item in node.items:
                    if isinstance(item, s.Spread):
                        self.check(item.of, lists[0], local, label)
                    else:
                        self.check(item, lists[0].of, local, label)
            case s.Ternary():
                self.check(node.test, t.BOOL, local, "condition")
                self.check(node.yes, expected, local, label)
                self.check(node.no, expected, local, label)
            case s.For() if lists:
                self.check(node.body, lists[0].of, self.infer.loop(node, local), label)
            case s.If():
                self.check(node.test, t.BOOL, local, "condition")
                self.check(node.body, expected, local, label)
            case _:
                if why := t.mismatch(self.infer.of(node, local), expected):
                    code = "value" if isinstance(t.without_null(expected), t.Union) else "type"
                    self.problem(node.line, code, f"{label}: {why}" if label else why)

    def _variant(self, node: s.Object, expected: t.Type) -> t.Obj | None:
        """Return the one object type that an object must have; ``None``: there are several."""
        found = [one for one in t.parts(expected) if isinstance(one, t.Obj | t.Discriminated)]
        if len(found) != 1:
            return None
        (one,) = found
        if isinstance(one, t.Obj):
            return one
        key = node.get(one.discriminator)
        value = key.value.value if key and isinstance(key.value, s.Literal) else None
        if value not in one.variants and isinstance(value, str):
            hint = t.suggestion(value, one.variants)
            self.problem(node.line, "value", f"'{value}' is not a {one.discriminator}{hint}")
        return one.variants.get(str(value)) or t.OBJECT

    def _object(self, node: s.Object, expected: t.Obj, local: Locals) -> None:
        seen: set[str] = set()
        computed = any(isinstance(one.key, s.Interpolation) for one in node.properties)
        for one in node.properties:
            if one.key == SPREAD:
                seen |= self._spread(one, expected, local)
            elif isinstance(one.key, s.Interpolation):
                self.infer.of(one.key, local)
                if expected.additional is not None or not expected.fields:
                    self.check(one.value, expected.additional or t.ANY, local, "")
            else:
                if one.key in seen:
                    message = f"'{one.key}' is set twice; delete one"
                    self.problem(one.line, "declared-twice", message)
                seen.add(one.key)
                self._member(one, one.key, expected, local)
        for key, member in expected.fields.items():
            if member.required and key not in seen and not computed:
                self.problem(node.line, "missing", f"{expected} requires '{key}'; set it")

    def _spread(self, one: s.Property, expected: t.Obj, local: Locals) -> set[str]:
        """Check an object that is spread into another; return the members that it may set."""
        kind = self.infer.of(one.value, local)
        if not isinstance(kind, t.Obj):
            return set(expected.fields)
        for key, member in kind.fields.items():
            known = expected.fields.get(key)
            if why := t.mismatch(
                member.type, known.type if known else expected.additional or t.ANY
            ):
                self.problem(one.line, "type", f"{key}: {why}")
        return set(kind.fields if kind.additional is None else expected.fields)

    def _member(self, one: s.Property, key: str, expected: t.Obj, local: Locals) -> None:
        member = expected.fields.get(key)
        if member is None:
            hint = t.suggestion(key, expected.fields)
            similar = expected.additional == t.ANY and hint and expected.fields
            if expected.additional is None or similar:
                message = f"{expected} has no '{key}'{hint or '; delete it'}"
                self.problem(one.line, "unknown-property", message)
            self.check(one.value, expected.additional or t.ANY, local, key)
            return
        if not member.writable:
            self.problem(one.line, "read-only", f"'{key}' is read-only; delete it")
        kind = member.type if member.required else t.nullable(member.type)
        self.check(one.value, kind, local, key)
