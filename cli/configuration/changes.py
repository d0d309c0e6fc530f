"""Defines the changes that bring a deployment to a configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cli.configuration.resources import SUBSCRIPTIONS, ResourceId, WantedResource
from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.stored_subscription import consent_text, missing_container

CONSENT = {"pushgrid-consent": "assumed"}
_NOT_COMPARED = {"provisioningState", "systemData"}
_HANDSHAKE = "handshake"  # what its failure says
_NO_CONSENT = "(The deployment does not assume consent: PUSHGRID_LOCAL_SHORTCUTS is not set.)"
_HIDDEN = "a value that is not shown, such as a secret"


class Action(StrEnum):
    """What happens to a resource."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    DELETE = "delete"

    @property
    def done(self) -> str:
        """The word for it afterwards: ``created``."""
        return self.value if self is Action.UNCHANGED else f"{self.value}d"

    @property
    def planned(self) -> str:
        """The word for it before: ``to create``."""
        return self.value if self is Action.UNCHANGED else f"to {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens to one resource, or has happened to it."""

    action: Action
    id: ResourceId
    # For people, without secrets but the signing one, once the change is made.
    differences: tuple[str, ...] = ()
    # What the file wants; ``None``: the file does not name it.
    resource: WantedResource | None = None
    keys: tuple[str, ...] = ()  # to set
    faults: tuple[str, ...] = ()  # why the deployment refuses the resource
    warnings: tuple[str, ...] = ()  # what the deployment did not do
    is_checked: bool = True  # the deployment can't check it until its parent exists

    @property
    def kind(self) -> str:
        """The kind of resource, in words."""
        return self.id.kind

    @property
    def name(self) -> str:
        """The name for people: ``orders``, ``orders/crm``, ``shop.orders/crm``."""
        return self.id.name

    @property
    def changes_something(self) -> bool:
        """Whether it is a change, and not refused."""
        return self.action is not Action.UNCHANGED and not self.faults

    @property
    def document(self) -> dict[str, Any]:
        """The change for programs."""
        return {
            "action": str(self.action),
            "kind": self.kind,
            "name": self.name,
            "differences": list(self.differences),
            "faults": list(self.faults),
            "warnings": list(self.warnings),
        }


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what differs between two answers of the deployment."""
    return tuple(_differences(before, after, "")) or (_HIDDEN,)


def faults_of(error: CommandFailed, resource: WantedResource) -> tuple[str, ...]:
    """
    Return the faults that the deployment found in a *resource*, with their lines.

    Raises:
        CommandFailed: the *error* itself, if it is not the resource's.
    """
    if error.status is None or error.status in {401, 403}:
        raise error
    if resource.is_consent_assumed and _HANDSHAKE in error.message:
        return (resource.place.fault(f"{error.message} {_NO_CONSENT}"),)
    if not error.faults:
        return (resource.place.fault(error.message),)
    return tuple(
        resource.place.at_target(fault.target).fault(fault.message) for fault in error.faults
    )


def warnings_of(
    deployment: Deployment, own: ResourceId, answer: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return what people should know about a resource that is stored."""
    missing = None
    if own.types[-1] == SUBSCRIPTIONS:
        missing = missing_container(deployment, own.path, answer)
    return tuple(each for each in (consent_text(answer), missing) if each)


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            if name not in _NOT_COMPARED:
                inner = f"{path}.{name}" if path else name
                yield from _differences(before.get(name), after.get(name), inner)
    elif before != after:
        yield f"{path}: {_shown(before)} → {_shown(after)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(_written(value), ensure_ascii=False)


def _written(value: Any) -> Any:
    """Return *value* as people write it: a deployment answers 10.0 to a filter's 10."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case Mapping():
            return {name: _written(each) for name, each in value.items()}
        case list():
            return [_written(each) for each in value]
    return value
