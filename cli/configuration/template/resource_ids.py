"""Makes the ids of resources, as the functions of ARM templates do, for one resource group."""

from __future__ import annotations

from typing import Any, NamedTuple

_PROVIDERS = "/providers/"


class ResourceGroup(NamedTuple):
    """The resource group that a template is read for."""

    subscription: str
    name: str

    @property
    def id(self) -> str:
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.name}"


def group_of(arm_id: str) -> ResourceGroup:
    """Return the resource group of an ARM id, ``/subscriptions/ID/resourceGroups/NAME``."""
    parts = arm_id.strip("/").split("/")
    return ResourceGroup(*parts[1::2])


def resource_id(group: ResourceGroup, *arguments: str) -> str:
    """Return an ARM id, as resourceId() does: in *group* unless the arguments name another."""
    names = list(arguments)
    at = next(index for index, each in enumerate(names) if "/" in each)
    given = names[:at]
    own = ResourceGroup(
        given[-2] if len(given) > 1 else group.subscription,
        given[-1] if given else group.name,
    )
    return own.id + provider_path(names[at], names[at + 1 :])


def provider_path(kind: str, names: list[str]) -> str:
    """Return the part of an ARM id from the provider on, of a kind such as ``A.B/c/d``."""
    provider, *types = kind.split("/")
    pairs = zip(types, names, strict=True)
    return _PROVIDERS + "/".join([provider, *(f"{one}/{name}" for one, name in pairs)])


def resource_group(group: ResourceGroup) -> dict[str, Any]:
    """Return the document of the group."""
    kind = "Microsoft.Resources/resourceGroups"
    return {
        "id": group.id,
        "name": group.name,
        "type": kind,
        "location": "local",
        "tags": {},
    }


def subscription(group: ResourceGroup) -> dict[str, Any]:
    """Return the document of the Azure subscription that the group is in."""
    own = group.subscription
    return {
        "id": f"/subscriptions/{own}",
        "subscriptionId": own,
        "tenantId": own,
        "displayName": "local",
    }
