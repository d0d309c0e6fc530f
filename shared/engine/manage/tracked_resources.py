"""Handles the requests that custom topics, system topics, namespaces and their topics share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from shared import telemetry
from shared.arm.arm_json import answer, read_json
from shared.arm.deployment_capabilities import DeploymentCapabilities
from shared.arm.document_names import REGENERATE_KEY
from shared.arm.member_names import Names
from shared.arm.sections import raise_faults, root_section
from shared.arm.tracked_resource import PATCHED, ArmPath, patched_resource, read_key
from shared.engine.manage.call import Call, answer_page, not_found
from shared.engine.manage.deletion import Deletion
from shared.engine.manage.writing import DocumentKey, write
from shared.engine.ports import Document, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, Conflict, NotFound, UnreadableDocument
from shared.http import HttpAnswer
from shared.nearest import did_you_mean
from shared.races import Backoff

KEY_NAMES = ("key1", "key2")

Body = Callable[[Resource | None], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedResources(ABC):
    """One kind of resource."""

    noun: ClassVar[str]  # in the log
    kind: ClassVar[str]  # in ARM ids; one with a parent has none, and writes its own `arm_id`
    monitored_type: ClassVar[str]  # as Azure Monitor names it
    names: ClassVar[Names]  # of the members of its documents
    segment: ClassVar[str] = "topic"  # of a route, which has the name
    partition: ClassVar[str]  # where its documents are stored
    has_keys: ClassVar[bool] = True  # without them only the app publishes to it

    resources: ResourceStore
    deployment: DeploymentCapabilities
    deletion: Deletion
    new_key: Callable[[], str]
    new_id: Callable[[], str]
    backoff: Backoff  # waits after that many lost races for a document
    parent: TrackedResources | None = None  # without one, names are unique in the deployment

    def name(self, call: Call) -> str:
        return call.names[self.segment]

    def path(self, call: Call) -> ArmPath:
        """Return the ARM path of a resource without a parent."""
        names = call.names
        return ArmPath(names["subscription"], names["group"], self.kind, names[self.segment])

    def arm_id(self, call: Call) -> str:
        return self.path(call).arm_id

    def name_of(self, stored: Document) -> str:
        return str(stored["name"])

    def covers(self, call: Call, stored: Document) -> bool:
        """Tell whether the list of a path includes a stored resource."""
        return call.covers(stored["id"])

    @abstractmethod
    def parse(self, call: Call, body: object, existing: Document | None) -> Document:
        """Read the body of a PUT into what replaces the *existing* document, without its keys."""

    def patched(self, stored: Document, patch: object) -> object:
        """Return the body of the PUT that has the effect of a PATCH."""
        return patched_resource(stored, patch, f"a {self._spaced_noun}", PATCHED)

    @abstractmethod
    def render(self, stored: Document, public_url: str) -> Document:
        """Write a stored resource for an ARM answer."""

    @abstractmethod
    def read(self, stored: Document) -> object:
        """Return a stored resource as a value; raise one of `UNREADABLE` if the app can't."""

    def clear(self, name: str) -> None:
        """Delete what a resource contains."""
        self.deletion.delete_all(name)

    def put(self, call: Call) -> HttpAnswer:
        """Create or replace. Event Grid's clients expect 201 in both cases."""
        body = read_json(call.body, self.names)
        return self._write(call, "put", 201, lambda _: body)

    def patch(self, call: Call) -> HttpAnswer:
        """Change the members that the body names; a concurrent change is merged."""
        patch = read_json(call.body, self.names)
        self._check_parent(call)

        def changed(existing: Resource | None) -> object:
            if existing is None or not self._is_here(self._readable(existing), call):
                raise self.not_found(call)
            return self.patched(existing.document, patch)

        return self._write(call, "patch", 200, changed)

    def get(self, call: Call) -> HttpAnswer:
        return answer(200, self.render(self.named(call).document, call.public_url))

    def delete(self, call: Call) -> HttpAnswer:
        """Delete a resource with its contents; idempotent: 204 if absent."""
        try:
            found = self.find(call)
            name = found and self.name_of(found.document)
        except UnreadableDocument:
            name = self.name(call)
        if name:
            # Contents first: a deletion that fails half-way can be repeated.
            self.clear(name)
            self.resources.delete(*self.key(call))
            self.clear(name)  # Contents created meanwhile.
            self._log_change(name, "delete", call)
        return answer(204)

    def list(self, call: Call) -> HttpAnswer:
        """List the resources of a parent, a resource group or a subscription."""
        self._check_parent(call)
        found = self._listed(call)
        return answer_page(call, found, lambda stored: self.render(stored, call.public_url))

    def _listed(self, call: Call) -> Sequence[Resource]:
        known = self.resources.list(Table.TOPICS, self.partition)
        # An unreadable document has no known scope.
        readable = filter(self.is_readable, known)
        return [each for each in readable if self.covers(call, each.document)]

    def list_keys(self, call: Call) -> HttpAnswer:
        stored = self.named(call).document
        telemetry.info("keys.listed", id=stored["id"], by=call.by)
        return _answer_keys(stored)

    def regenerate_key(self, call: Call) -> HttpAnswer:
        """Replace one access key; the other stays valid, so that publishers can switch."""
        root = root_section(read_json(call.body, REGENERATE_KEY))
        name = root.required_choice("keyName", KEY_NAMES)
        given = read_key(root, "keyValue", is_allowed=call.may_choose_keys)
        raise_faults(root.faults)
        key = given or self.new_key()

        def with_new_key(_: Resource | None) -> Document:
            stored = self.named(call).document
            return {**stored, "keys": {**stored["keys"], name: key}}

        changed = write(self.resources, self.key(call), with_new_key, self.backoff)
        telemetry.info("keys.changed", id=changed.document["id"], key=name, by=call.by)
        return _answer_keys(changed.document)

    def what_if(self, call: Call) -> HttpAnswer:
        """Answer what a PUT of the body would change; store nothing."""
        existing = self.resources.get(*self.key(call))
        wanted = self._parsed(call, read_json(call.body, self.names), existing)
        before: Document | None = {} if existing else None
        if existing and self.is_readable(existing):
            before = self.render(existing.document, call.public_url)
        after = self.render(wanted, call.public_url)
        return answer_what_if(before, after, is_same=bool(existing and existing.document == wanted))

    def named(self, call: Call) -> Resource:
        """Return the resource of the path; `UnreadableDocument`: its row can't be read."""
        found = self.find(call)
        if found is None:
            raise self.not_found(call)
        return found

    def find(self, call: Call) -> Resource | None:
        """Return the resource that the path of *call* names, if it is there."""
        if self.parent and self.parent.find(call) is None:
            return None
        found = self.resources.get(*self.key(call))
        return found if found and self._is_here(self._readable(found), call) else None

    def is_readable(self, row: Resource) -> bool:
        """Tell whether a row has the form that this version of the app reads."""
        try:
            self.read(row.document)
            self.render(row.document, "")
            if self.has_keys:
                _answer_keys(row.document)
        except UNREADABLE:
            return False
        return True

    def location(self, call: Call) -> str:
        """Return the location of the path's resource, which is that of its parent."""
        return str((self.parent or self).named(call).document["location"])

    def not_found(self, call: Call) -> NotFound:
        return not_found(call, self.arm_id(call), self._near(call))

    def _near(self, call: Call) -> str:
        """Return what may be meant by the name that is wrong: the path's, or its parent's."""
        if self.parent and self.parent.find(call) is None:
            return self.parent._near(call)  # noqa: SLF001 - the same class
        known = [str(each.document["name"]) for each in self._listed(call)]
        return did_you_mean(call.names[self.segment], known)

    def topic_name(self, call: Call) -> str:
        """Return the name on the data plane of the topic of a path; it may not be there."""
        return self.name(call)

    def key(self, call: Call) -> DocumentKey:
        return DocumentKey(Table.TOPICS, self.partition, self.name(call))

    def _readable(self, row: Resource) -> Resource:
        if not self.is_readable(row):
            raise UnreadableDocument
        return row

    def _is_here(self, found: Resource, call: Call) -> bool:
        """Tell whether a resource of that name has the ARM id of the path, ignoring case."""
        if self.parent:
            return True
        return bool(found.document["id"].casefold() == self.arm_id(call).casefold())

    def _check_parent(self, call: Call) -> None:
        if self.parent:
            self.parent.named(call)

    def _write(self, call: Call, action: str, status: int, body: Body) -> HttpAnswer:
        def decide(existing: Resource | None) -> Document:
            return self._parsed(call, body(existing), existing)

        stored = write(self.resources, self.key(call), decide, self.backoff).document
        if self.parent and self.parent.find(call) is None:
            # Its parent was deleted meanwhile.
            self.resources.delete(*self.key(call))
            self.clear(self.name_of(stored))
            raise self.parent.not_found(call)
        self._log_change(self.name_of(stored), action, call)
        return answer(status, self.render(stored, call.public_url))

    def _parsed(self, call: Call, body: object, existing: Resource | None) -> Document:
        """Read the body of a PUT into the document that replaces the *existing* one."""
        known = existing.document if existing and self.is_readable(existing) else None
        if existing and known and not self._is_here(existing, call):
            name = self.name(call)
            raise Conflict(f"There is a {self._spaced_noun} '{name}' elsewhere in this deployment.")
        stored = self.parse(call, body, known)
        if not self.has_keys:
            return stored
        keys = _usable_keys(existing.document) if existing else None
        return {**stored, "keys": keys or {each: self.new_key() for each in KEY_NAMES}}

    @property
    def _spaced_noun(self) -> str:
        return self.noun.replace("_", " ")

    def _log_change(self, name: str, action: str, call: Call) -> None:
        telemetry.info(f"{self.noun}.changed", **{self.noun: name}, action=action, by=call.by)


def _usable_keys(stored: Document) -> Document | None:
    """Return the keys of a document, which may be damaged, if publishers can use them."""
    keys = stored.get("keys")
    is_whole = isinstance(keys, dict) and all(isinstance(keys.get(n), str) for n in KEY_NAMES)
    return keys if is_whole else None


def _answer_keys(stored: Document) -> HttpAnswer:
    return answer(200, {name: stored["keys"][name] for name in KEY_NAMES})


def answer_what_if(before: Document | None, after: Document, *, is_same: bool) -> HttpAnswer:
    """
    Answer a change: the resource *before* as a GET shows it, and *after* the PUT.

    *before* is ``None`` if there is no resource, and empty if it can't be read. *is_same* compares
    what is stored, including what an answer hides.

    Source: "Deployments - What If" of Azure Resource Manager, ``WhatIfChange``.
    """
    kind = "Create" if before is None else "NoChange" if is_same else "Modify"
    return answer(200, {"changeType": kind, "before": before, "after": after})
