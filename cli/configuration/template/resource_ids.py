"""Makes the ids of resources, as the functions of ARM templates do, for one resource group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_PROVIDERS = "/providers/"


class Group(NamedTuple):
    """The resource group that a template is read for."""

    subscription: str
    name: str

    @property
    def id(self) -> str:
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.name}"


def group_of(arm_id: str) -> Group:
    """Return the resource group of an ARM id, ``/subscriptions/ID/resourceGroups/NAME``."""
    parts = arm_id.strip("/").split("/")
    return Group(*parts[1::2])


def _resource_id(group: Group, *arguments: str) -> str:
    names = list(arguments)
    at = next(index for index, each in enumerate(names) if "/" in each)
    given = names[:at]
    own = Group(
        given[-2] if len(given) > 1 else group.subscription,
        given[-1] if given else group.name,
    )
    return own.id + _path(names[at], names[at + 1 :])


def _path(kind: str, names: list[str]) -> str:
    provider, *types = kind.split("/")
    pairs = zip(types, names, strict=True)
    return _PROVIDERS + "/".join([provider, *(f"{one}/{name}" for one, name in pairs)])


def _resource_group(group: Group) -> dict[str, Any]:
    kind = "Microsoft.Resources/resourceGroups"
    return {
        "id": group.id,
        "name": group.name,
        "type": kind,
        "location": "local",
        "tags": {},
    }


def _subscription(group: Group) -> dict[str, Any]:
    own = group.subscription
    return {
        "id": f"/subscriptions/{own}",
        "subscriptionId": own,
        "tenantId": own,
        "displayName": "local",
    }


GROUP_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "extensionresourceid": lambda _, base, kind, *names: base + _path(kind, list(names)),
    "resourcegroup": _resource_group,
    "resourceid": _resource_id,
    "subscription": _subscription,
    "subscriptionresourceid": lambda group, *names: (
        f"/subscriptions/{group.subscription}{_path(names[-2], [names[-1]])}"
    ),
    "tenantresourceid": lambda _, kind, *names: _path(kind, list(names)),
}
