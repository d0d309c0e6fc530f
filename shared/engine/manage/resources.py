"""Topics, namespaces and their topics: whatever they are, they are managed alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shared import telemetry
from shared.arm.arm_json import answer, read_json
from shared.engine.manage.call import Call, ManagePorts, not_found
from shared.engine.manage.page import answer_page
from shared.engine.manage.writing import Place, write
from shared.engine.ports import Resource, Table
from shared.errors import Conflict, NotFound
from shared.http import HttpAnswer

Document = Mapping[str, Any]
Body = Callable[[Resource | None], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """
    One kind of resource.

    *noun* is what it is called in the log, *partition* where it is stored. *name* and *arm_id* say
    of a path which resource it names; *name_of* and *covers* say of a stored one what it is called,
    and whether it belongs in the list of a path. *parse*, *patched* and *render* are those of its
    codec. *clear* deletes what is in a resource of that name. Without a *parent* a name is taken
    once in a deployment, whatever the resource group.
    """

    noun: str
    partition: str
    name: Callable[[Call], str]
    arm_id: Callable[[Call], str]
    name_of: Callable[[Document], str]
    covers: Callable[[Call, Document], bool]
    parse: Callable[[ManagePorts, Call, object, Document | None], Document]
    patched: Callable[[Document, object], object]
    render: Callable[[Document, str], Document]
    clear: Callable[[ManagePorts, str], None]
    parent: Resources | None = None

    def put(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """Create or replace. Event Grid's clients take nothing but 201, also when replacing."""
        body = read_json(call.body)
        return self._write(ports, call, 201, lambda _: body)

    def patch(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """Change what the body names; merged anew if somebody else changes it meanwhile."""
        patch = read_json(call.body)
        self._check_parent(ports, call)

        def changed(existing: Resource | None) -> object:
            if existing is None or not self._is_here(existing, call):
                raise self.not_found(call)
            return self.patched(existing.document, patch)

        return self._write(ports, call, 200, changed)

    def get(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        return answer(200, self.render(self.named(ports, call).document, call.public_url))

    def delete(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """Delete with all that is in it; 204 needs no polling, and is no news twice."""
        if found := self.find(ports, call):
            name = self.name_of(found.document)
            # It goes after what is in it: what fails half-way can be deleted again.
            self.clear(ports, name)
            ports.resources.delete(*self.place(call))
            self.clear(ports, name)  # what was created meanwhile
            self._tell(name, "delete")
        return answer(204)

    def list(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """List those of a parent, of a resource group or, where none is named, a subscription."""
        self._check_parent(ports, call)
        known = ports.resources.list(Table.TOPICS, self.partition)
        found = [each for each in known if self.covers(call, each.document)]
        return answer_page(call, found, lambda stored: self.render(stored, call.public_url))

    def named(self, ports: ManagePorts, call: Call) -> Resource:
        """
        Return the resource that the path of *call* names.

        Raises:
            NotFound: there is none, or it is in another resource group.
        """
        found = self.find(ports, call)
        if found is None:
            raise self.not_found(call)
        return found

    def find(self, ports: ManagePorts, call: Call) -> Resource | None:
        """Return the resource that the path of *call* names, if it is there."""
        if self.parent and self.parent.find(ports, call) is None:
            return None
        found = ports.resources.get(*self.place(call))
        return found if found and self._is_here(found, call) else None

    def not_found(self, call: Call) -> NotFound:
        return not_found(call, self.arm_id(call))

    def place(self, call: Call) -> Place:
        return Place(Table.TOPICS, self.partition, self.name(call))

    def _is_here(self, found: Resource, call: Call) -> bool:
        """Tell whether a resource of that name is the one of that path, whatever the case."""
        if self.parent:
            return True
        return bool(found.document["id"].casefold() == self.arm_id(call).casefold())

    def _check_parent(self, ports: ManagePorts, call: Call) -> None:
        if self.parent:
            self.parent.named(ports, call)

    def _write(self, ports: ManagePorts, call: Call, status: int, body: Body) -> HttpAnswer:
        def decide(existing: Resource | None) -> Document:
            wanted = body(existing)
            if existing and not self._is_here(existing, call):
                name = self.name(call)
                raise Conflict(f"There is a {self.noun} '{name}' elsewhere in this deployment.")
            return self.parse(ports, call, wanted, existing.document if existing else None)

        stored = write(ports.resources, self.place(call), decide, ports.rest).document
        if self.parent and self.parent.find(ports, call) is None:
            # Nobody's: its parent was deleted meanwhile.
            ports.resources.delete(*self.place(call))
            self.clear(ports, self.name_of(stored))
            raise self.parent.not_found(call)
        self._tell(self.name_of(stored), "put")
        return answer(status, self.render(stored, call.public_url))

    def _tell(self, name: str, action: str) -> None:
        telemetry.info(f"{self.noun}.changed", **{self.noun: name}, action=action)
