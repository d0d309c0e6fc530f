"""Rules of resources: their types, members, parents, scopes, and what they wait for."""

from __future__ import annotations

from collections.abc import Mapping

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import SCOPES, File
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types import resource_types, schema
from tools.bicepcheck.types.infer import Inference

EXTENSIONS = frozenset(
    {
        "microsoft.authorization/roleassignments",
        "microsoft.authorization/locks",
        "microsoft.insights/diagnosticsettings",
    }
)
"""Types that are put on another resource."""

_GROUP = "microsoft.resources/resourcegroups"
_WRITTEN = {"scope": t.ANY, "parent": t.ANY, "dependsOn": t.ANY}


class Resources:
    """The check of one file's resources."""

    def __init__(self, file: File, inference: Inference) -> None:
        self.file = file
        self.infer = inference
        self.problem = inference.problem

    def check(self, one: s.Resource, outer: str | None) -> None:
        """Check a resource; *outer*: the type it is nested in, if it is."""
        name, _, version = one.type.partition("@")
        full = f"{outer}/{name}" if outer else name
        found = resource_types.known(full)
        if found is None:
            self.problem(one.line, "resource-type", f"there is no resource type {full}")
        elif found.name != full:
            self.problem(one.line, "resource-type", f"{full}: is {found.name} meant?")
        elif version != found.version and version in schema.versions(full):
            self.infer.report.unchecked.add(
                f"{full}: members of {version}, which are compared with those of {found.version}"
            )
        elif version and version != found.version:
            message = f"{full}: {version} is no version that is known; {found.version} is checked"
            self.problem(one.line, "api-version", message)
        if found and (note := schema.note(full)):
            self.infer.report.unchecked.add(f"{full}: {note}")
        if not version and not outer:
            self.problem(one.line, "api-version", f"{full} has no version")
        loop, test, body = s.loop_parts(one.value)
        local = self.infer.loop(loop, {}) if loop else {}
        if test is not None:
            self.infer.check(test, t.BOOL, local, "condition")
        if not isinstance(body, s.Object):
            self.problem(one.line, "type", "a resource's value is an object")
            return
        self.depends_on(body, local)
        self._placed(one, body, full, outer, local)
        self._members(one, body, found, local)
        for inner in body.resources:
            self.check(inner, full)

    def _members(
        self,
        one: s.Resource,
        body: s.Object,
        found: resource_types.Known | None,
        local: Mapping[str, t.Type],
    ) -> None:
        own = s.Object(
            line=body.line,
            properties=tuple(p for p in body.properties if p.key not in _WRITTEN),
        )
        if one.existing:
            if own.get("name") is None:
                self.problem(one.line, "missing", "an existing resource needs its 'name'")
            for member in own.properties:
                if member.key != "name":
                    message = f"'{member.key}' of an existing resource can't be set"
                    self.problem(member.line, "read-only", message)
            kind = t.Obj(fields={"name": t.Field(type=t.STRING, required=True)}, rest=t.ANY)
            self.infer.check(own, kind, local)
            return
        if found is None:
            self.infer.of(own, local)
            return
        self.infer.check(own, found.body, local)

    def _placed(
        self,
        one: s.Resource,
        body: s.Object,
        full: str,
        outer: str | None,
        local: Mapping[str, t.Type],
    ) -> None:
        """Check parent and scope."""
        parent, scope = body.get("parent"), body.get("scope")
        owner = full.rpartition("/")[0]
        if parent:
            kind = self.infer.of(parent.value, local)
            if not isinstance(kind, t.ResourceType):
                if kind != t.ANY:
                    self.problem(
                        parent.line, "parent", f"a parent is a resource, not {t.show(kind)}"
                    )
            elif outer:
                self.problem(parent.line, "parent", "a nested resource has its parent already")
            elif kind.kind.lower() != owner.lower():
                message = f"{full} is a child of {owner}, not of {kind.kind}"
                self.problem(parent.line, "parent", message)
        elif full.count("/") > 1 and not outer:
            self._segments(one, body, full)
        if scope:
            inside = outer or (owner if parent else None)
            self._scope(scope, full, inside, local, existing=one.existing)
        elif full.lower() not in EXTENSIONS and not outer:
            self._fits_file(one, full)

    def _segments(self, one: s.Resource, body: s.Object, full: str) -> None:
        name = body.get("name")
        text = ""
        if name and isinstance(name.value, s.Literal):
            text = str(name.value.value)
        elif name and isinstance(name.value, s.Text):
            text = "".join(part if isinstance(part, str) else "x" for part in name.value.parts)
        if text.count("/") != full.count("/") - 1:
            self.problem(one.line, "parent", f"{full} needs its parent")

    def _scope(
        self,
        scope: s.Property,
        full: str,
        owner: str | None,
        local: Mapping[str, t.Type],
        *,
        existing: bool,
    ) -> None:
        kind = self.infer.of(scope.value, local)
        given = self.scope_of(scope.value, local)
        on_resource = isinstance(kind, t.ResourceType) and kind.kind.lower() != _GROUP
        if owner and given:
            self.problem(scope.line, "scope", "a child is where its parent is")
        elif on_resource and full.lower() not in EXTENSIONS:
            self.problem(scope.line, "scope", f"{full} can't be put on another resource")
        elif given in SCOPES and not existing and full.lower() not in EXTENSIONS:
            elsewhere = isinstance(scope.value, s.Call) and scope.value.args
            if given != self.file.scope or elsewhere:
                message = f"this file is for a {self.file.scope}: only a module goes elsewhere"
                self.problem(scope.line, "scope", message)

    def _fits_file(self, one: s.Resource, full: str) -> None:
        found = resource_types.known(full)
        if found is None or one.existing:
            return
        allowed = found.scopes.lower()
        if "all" in allowed or "unknown" in allowed:
            return
        if self.file.scope.lower() not in allowed:
            message = f"{full} belongs into a {found.scopes}, this file is for a {self.file.scope}"
            self.problem(one.line, "scope", message)

    def scope_of(self, node: s.Node, local: Mapping[str, t.Type]) -> str | None:
        """Return the kind of scope an expression is: one of SCOPES, ``resource``, or unknown."""
        kind = self.infer.of(node, local)
        if isinstance(node, s.Call) and node.name in SCOPES:
            if (
                node.name == "resourceGroup"
                and self.file.scope != "resourceGroup"
                and not node.args
            ):
                self.problem(
                    node.line, "scope", f"there is no resource group in a {self.file.scope}"
                )
            return node.name
        if isinstance(kind, t.ResourceType):
            return "resourceGroup" if kind.kind.lower() == _GROUP else "resource"
        if isinstance(kind, t.Union) or kind == t.ANY:
            return None
        self.problem(node.line, "scope", f"a scope is a resource or a scope, not {t.show(kind)}")
        return None

    def depends_on(self, body: s.Object, local: Mapping[str, t.Type]) -> None:
        """Check that what is waited for is a resource or a module."""
        waits = body.get("dependsOn")
        if waits is None:
            return
        if not isinstance(waits.value, s.Array):
            self.infer.check(waits.value, t.ARRAY, local, "dependsOn")
            return
        for item in waits.value.items:
            kind = self.infer.of(item, local)
            inner = kind.of if isinstance(kind, t.Arr) else kind
            if (
                not isinstance(inner, t.ResourceType)
                and inner != t.ANY
                and not isinstance(inner, t.Union)
            ):
                message = f"dependsOn holds resources and modules, not {t.show(kind)}"
                self.problem(item.line, "depends-on", message)
