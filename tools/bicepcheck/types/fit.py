"""Values beside the types that are asked for, down to every member of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.newer import SPREAD
from tools.bicepcheck.types import kinds as t

if TYPE_CHECKING:
    from tools.bicepcheck.types.infer import Inference

Locals = Mapping[str, t.Type]


class Asked:
    """The check of what one file passes on."""

    def __init__(self, inference: Inference) -> None:
        self.infer = inference

    def check(self, node: s.Node, asked: t.Type, local: Locals, what: str = "") -> None:
        """Report where *node* can't stand where *asked* is asked for."""
        match node:
            case s.Object() if fitting := self._object_asked(node, asked):
                self._check_object(node, fitting, local)
            case s.Array() if lists := [one for one in t.parts(asked) if isinstance(one, t.Arr)]:
                for item in node.items:
                    if isinstance(item, s.Spread):
                        self.check(item.of, lists[0], local, what)
                    else:
                        self.check(item, lists[0].of, local, what)
            case s.Choice():
                self.check(node.test, t.BOOL, local, "condition")
                self.check(node.yes, asked, local, what)
                self.check(node.no, asked, local, what)
            case s.For() if lists := [one for one in t.parts(asked) if isinstance(one, t.Arr)]:
                self.check(node.body, lists[0].of, self.infer.loop(node, local), what)
            case s.If():
                self.check(node.test, t.BOOL, local, "condition")
                self.check(node.body, asked, local, what)
            case _:
                given = self.infer.of(node, local)
                if why := t.mismatch(given, asked):
                    code = "value" if isinstance(t.without_null(asked), t.Union) else "type"
                    self.infer.problem(node.line, code, f"{what}: {why}" if what else why)

    def _object_asked(self, node: s.Object, asked: t.Type) -> t.Obj | None:
        found = [one for one in t.parts(asked) if isinstance(one, t.Obj | t.Tagged)]
        if len(found) != 1:
            return None
        one = found[0]
        if not isinstance(one, t.Tagged):
            return one
        tag = node.get(one.tag)
        value = tag.value.value if tag and isinstance(tag.value, s.Literal) else None
        if value not in one.of and isinstance(value, str):
            hint = t.nearest(value, list(one.of))
            self.infer.problem(node.line, "value", f"'{value}' is no {one.tag}{hint}")
        return one.of.get(str(value)) or t.OBJECT

    def _check_object(self, node: s.Object, asked: t.Obj, local: Locals) -> None:
        seen: set[str] = set()
        for one in node.properties:
            if one.key == SPREAD:
                seen |= self._spread(one, asked, local)
                continue
            if isinstance(one.key, s.Text):
                self.infer.of(one.key, local)
                if asked.rest is None and asked.fields:
                    continue
                self.check(one.value, asked.rest or t.ANY, local)
                continue
            if one.key in seen:
                self.infer.problem(one.line, "declared-twice", f"'{one.key}' is there twice")
            seen.add(one.key)
            self._check_member(one, one.key, asked, local)
        missing = [key for key, one in asked.fields.items() if one.required and key not in seen]
        if any(isinstance(one.key, s.Text) for one in node.properties):
            missing = []
        for key in missing:
            self.infer.problem(node.line, "missing", f"{t.show(asked)} needs '{key}'")

    def _spread(self, one: s.Property, asked: t.Obj, local: Locals) -> set[str]:
        """Check what is spread into an object; return the members that may come of it."""
        kind = self.infer.of(one.value, local)
        if not isinstance(kind, t.Obj):
            return set(asked.fields)
        for key, member in kind.fields.items():
            wanted = asked.fields[key].type if key in asked.fields else asked.rest or t.ANY
            if why := t.mismatch(member.type, wanted):
                self.infer.problem(one.line, "type", f"{key}: {why}")
        return set(kind.fields) if kind.rest is None else set(asked.fields)

    def _check_member(self, one: s.Property, key: str, asked: t.Obj, local: Locals) -> None:
        member = asked.fields.get(key)
        if member is None:
            near = t.nearest(key, list(asked.fields))
            if asked.rest is None:
                message = f"{t.show(asked)} has no '{key}'{near}"
                self.infer.problem(one.line, "unknown-property", message)
            elif asked.rest == t.ANY and near and asked.fields:
                self.infer.problem(one.line, "unknown-property", f"'{key}'{near}")
            self.check(one.value, asked.rest or t.ANY, local, key)
            return
        if not member.writable:
            self.infer.problem(one.line, "read-only", f"'{key}' can only be read")
        kind = member.type if member.required else t.nullable(member.type)
        self.check(one.value, kind, local, key)
