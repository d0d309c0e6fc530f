"""Access keys: shown, and made anew one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared import telemetry
from shared.arm.arm_json import answer, read_json
from shared.arm.sections import document, raise_faults
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.resources import Resources
from shared.engine.manage.writing import write
from shared.engine.ports import Resource
from shared.http import HttpAnswer

NAMES = ("key1", "key2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of one kind of resource."""

    of: Resources

    def list(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        return _shown(self.of.named(ports, call).document)

    def regenerate(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """Make one key anew; the other stays valid, so that publishers can change over."""
        root = document(read_json(call.body))
        name = root.required_choice("keyName", NAMES)
        raise_faults(root.faults)
        key = ports.new_key()

        def with_new_key(_: Resource | None) -> Mapping[str, Any]:
            stored = self.of.named(ports, call).document
            return {**stored, "keys": {**stored["keys"], name: key}}

        changed = write(ports.resources, self.of.place(call), with_new_key, ports.rest)
        telemetry.info("keys.changed", id=changed.document["id"], key=name)
        return _shown(changed.document)


def _shown(stored: Mapping[str, Any]) -> HttpAnswer:
    return answer(200, {name: stored["keys"][name] for name in NAMES})
