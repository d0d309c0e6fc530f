"""Rules about resources: their types, members, parents, scopes and dependencies."""

from __future__ import annotations

from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import SCOPES, File
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types import resource_types, schema
from tools.bicepcheck.types.infer import Inference, Locals

EXTENSIONS = frozenset(
    {
        "microsoft.authorization/roleassignments",
        "microsoft.authorization/locks",
        "microsoft.insights/diagnosticsettings",
    }
)
"""Types whose scope is another resource."""

_GROUP = "microsoft.resources/resourcegroups"
_EXISTING = t.Obj(
    fields={"name": t.Field(type=t.STRING, required=True)},
    additional=t.ANY,
    name="an existing resource",
)


class Resources:
    """The check of one file's resources."""

    def __init__(self, file: File, inference: Inference) -> None:
        self.file = file
        self.infer = inference
        self.problem = inference.problem

    def check(self, one: s.Resource, outer: str | None) -> None:
        """Check a resource; *outer*: the type it is nested in, if it is."""
        name, _, version = one.type.partition("@")
        kind = f"{outer}/{name}" if outer else name
        found = resource_types.known(kind)
        self._type(one, kind, found, version, nested=bool(outer))
        local = self.infer.loop(one.loop, {})
        if one.test is not None:
            self.infer.check(one.test, t.BOOL, local, "condition")
        body = one.body
        if not isinstance(body, s.Object):
            self.problem(one.line, "type", "the value of a resource must be an object")
            return
        self.depends_on(body, local)
        owner = self._parent(one, body, kind, outer, local)
        if scope := body.get("scope"):
            self._scope(scope, kind, owner, local, existing=one.existing)
        elif kind.lower() not in EXTENSIONS and not outer and found and not one.existing:
            self._deployable_here(one, found)
        self._members(one, body.without("scope", "parent", "dependsOn"), found, local)
        for inner in body.resources:
            self.check(inner, kind)

    def _type(
        self,
        one: s.Resource,
        kind: str,
        found: resource_types.Known | None,
        version: str,
        *,
        nested: bool,
    ) -> None:
        unchecked = self.infer.report.unchecked
        if found is None:
            self.problem(one.line, "resource-type", f"Azure has no resource type {kind}")
        elif found.name != kind:
            message = f"the resource type {kind} is written {found.name}"
            self.problem(one.line, "resource-type", message)
        elif version != found.version and version in schema.versions(kind):
            message = f"members of {version}, which are compared with those of {found.version}"
            unchecked.add(f"{kind}: {message}")
        elif version and version != found.version:
            message = f"{kind} has no known version {version}; use {found.version}"
            self.problem(one.line, "api-version", message)
        if found and (note := schema.limitation(kind)):
            unchecked.add(f"{kind}: {note}")
        if not version and not nested:
            self.problem(one.line, "api-version", f"{kind} has no version; append @<version>")

    def _members(
        self, one: s.Resource, body: s.Object, found: resource_types.Known | None, local: Locals
    ) -> None:
        if one.existing:
            for member in body.properties:
                if member.key != "name":
                    message = f"'{member.key}' of an existing resource can't be set; delete it"
                    self.problem(member.line, "read-only", message)
            self.infer.check(body, _EXISTING, local)
        elif found is None:
            self.infer.of(body, local)
        else:
            self.infer.check(body, found.body, local)

    def _parent(
        self, one: s.Resource, body: s.Object, kind: str, outer: str | None, local: Locals
    ) -> str | None:
        """Check the parent; return its type, if the resource has one."""
        parent, owner = body.get("parent"), kind.rpartition("/")[0]
        if parent is None:
            if kind.count("/") > 1 and not outer:
                self._name_segments(one, body, kind)
            return outer
        of = self.infer.of(parent.value, local)
        if not isinstance(of, t.ResourceType):
            if of != t.ANY:
                self.problem(parent.line, "parent", f"the parent must be a resource, not {of}")
        elif outer:
            message = "a nested resource has its parent already; delete this"
            self.problem(parent.line, "parent", message)
        elif of.kind.lower() != owner.lower():
            message = f"the parent of {kind} must be a {owner}, not a {of}"
            self.problem(parent.line, "parent", message)
        return outer or owner

    def _name_segments(self, one: s.Resource, body: s.Object, kind: str) -> None:
        """Without `parent`, the name of a child contains the names of its parents."""
        name, text = body.get("name"), ""
        if name and isinstance(name.value, s.Literal):
            text = str(name.value.value)
        elif name and isinstance(name.value, s.Interpolation):
            text = "".join(part if isinstance(part, str) else "x" for part in name.value.parts)
        if text.count("/") != kind.count("/") - 1:
            self.problem(one.line, "parent", f"{kind} is a child resource; set its 'parent'")

    def _scope(
        self, scope: s.Property, kind: str, owner: str | None, local: Locals, *, existing: bool
    ) -> None:
        of = self.infer.of(scope.value, local)
        given = self.scope_of(scope.value, local)
        extension = kind.lower() in EXTENSIONS
        on_resource = isinstance(of, t.ResourceType) and of.kind.lower() != _GROUP
        if owner and given:
            message = "a child resource has the scope of its parent; delete this"
            self.problem(scope.line, "scope", message)
        elif on_resource and not extension:
            self.problem(scope.line, "scope", f"the scope of {kind} can't be another resource")
        elif given in SCOPES and not existing and not extension:
            elsewhere = isinstance(scope.value, s.Call) and scope.value.args
            if given != self.file.scope or elsewhere:
                message = (
                    f"this file deploys to a {self.file.scope}; use a module for another scope"
                )
                self.problem(scope.line, "scope", message)

    def _deployable_here(self, one: s.Resource, found: resource_types.Known) -> None:
        allowed = found.scopes.lower()
        if not any(scope in allowed for scope in ("all", "unknown", self.file.scope.lower())):
            message = f"{found.name} deploys to a {found.scopes}, this file to a {self.file.scope}"
            self.problem(one.line, "scope", message)

    def scope_of(self, node: s.Node, local: Locals) -> str | None:
        """Return the kind of scope of an expression: one of SCOPES, ``resource``, or unknown."""
        of = self.infer.of(node, local)
        if isinstance(node, s.Call) and node.name in SCOPES:
            if node.name == "resourceGroup" != self.file.scope and not node.args:
                message = f"a {self.file.scope} has no current resource group; name one"
                self.problem(node.line, "scope", message)
            return node.name
        if isinstance(of, t.ResourceType):
            return "resourceGroup" if of.kind.lower() == _GROUP else "resource"
        if not isinstance(of, t.Union) and of != t.ANY:
            message = f"a scope must be a resource or a scope function, not {of}"
            self.problem(node.line, "scope", message)
        return None

    def depends_on(self, body: s.Object, local: Locals) -> None:
        """Check that `dependsOn` lists resources and modules."""
        depends = body.get("dependsOn")
        if depends is None:
            return
        if not isinstance(depends.value, s.Array):
            self.infer.check(depends.value, t.ARRAY, local, "dependsOn")
            return
        for item in depends.value.items:
            of = self.infer.of(item, local)
            inner = of.of if isinstance(of, t.Arr) else of
            if not isinstance(inner, t.ResourceType | t.Union) and inner != t.ANY:
                message = f"dependsOn must list resources and modules, not {of}"
                self.problem(item.line, "depends-on", message)
