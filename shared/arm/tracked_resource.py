"""
Reads and writes tracked resources: ARM ids, location, tags and the name rules.

Some members have no effect here, but clients expect to get them back. Source: the models of
azure-mgmt-eventgrid 10.4.0 and, for sku and kind of topics, 9.0.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from shared.arm.deployment_capabilities import DeploymentCapabilities
from shared.arm.sections import Document, Section, patched_properties, read_patch
from shared.events.base64_text import base64_fault
from shared.events.topic import DEPLOYMENT

PROVIDER = "Microsoft.EventGrid"
PROFILE_TAG = "deliveryProfile".casefold()  # tags have no case
_SUBSCRIPTION = re.compile(r"[A-Za-z0-9-]{1,64}")
_GROUP = re.compile(r"[A-Za-z0-9_.()-]{0,89}[A-Za-z0-9_()-]")  # no trailing full stop
_SHORTEST_KEY, _LONGEST_KEY = 8, 128  # characters
_NAME = re.compile(r"[A-Za-z0-9-]+")
_SHORTEST, _LONGEST = 3, 50  # characters of a name
_RESERVED = ("microsoft", "eventgrid", "system")
_BOTH = "SystemAssigned, UserAssigned"
# Some clients write both without the space; Azure shows them with it.
_IDENTITIES = ("None", "SystemAssigned", "UserAssigned", _BOTH, _BOTH.replace(" ", ""))
_SKUS = ("Basic", "Premium", "Standard")
_MAX_CAPACITY = 40  # throughput units of a namespace
_BOUNDARIES = ("WithinGeopair", "WithinRegion")
_MAX_TAGS, _MAX_TAG_NAME, _MAX_TAG = 50, 512, 256
ACCOUNT_ID = re.compile(
    r"/subscriptions/[A-Za-z0-9-]{1,64}/resourceGroups/[-\w.()]{0,89}[-\w()]"
    r"/providers/Microsoft\.Storage/storageAccounts/(?P<name>(?-i:[a-z0-9]{3,24}))",
    re.IGNORECASE,
)
DEPLOYMENT_ID = re.compile(
    r"/subscriptions/[A-Za-z0-9-]{1,64}/resourceGroups/[-\w.()]{0,89}[-\w()]"
    rf"/providers/Pushgrid/deployments/(?-i:{DEPLOYMENT})",
    re.IGNORECASE,
)


class ArmPath(NamedTuple):
    """The names in the ARM id of a tracked resource."""

    subscription: str
    group: str
    kind: str  # for example, ``topics``
    name: str

    @property
    def arm_id(self) -> str:
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
            f"/providers/{PROVIDER}/{self.kind}/{self.name}"
        )


def parse_resource(
    root: Section, path: ArmPath, deployment: DeploymentCapabilities, existing: Document | None
) -> dict[str, Any]:
    """
    Read the members of a resource beside its properties; an *existing* one keeps its id.

    It keeps its location as well, if the body names none.
    """
    _check_path(root, path)
    return {
        "id": existing["id"] if existing else path.arm_id,
        "name": existing["name"] if existing else path.name,
        "location": root.text("location") or (existing or {}).get("location") or "global",
        "tags": _tags(root, deployment),
        **_parse(root, _PASSTHROUGH),
    }


def read_key(root: Section, name: str, *, is_allowed: bool) -> str | None:
    """Read an access key that the caller chose: Base64, because signatures are made with it."""
    key = root.text(name)
    if key is None:
        return None
    if not is_allowed:
        root.refuse(
            name, f"{name} needs the app's setting PUSHGRID_LOCAL_SHORTCUTS, for local use."
        )
    elif fault := _key_fault(key):
        what = f"must be Base64 of {_SHORTEST_KEY} to {_LONGEST_KEY} characters"
        root.refuse(name, f"{name} {what}; this {fault}.")
    return key


def _key_fault(key: str) -> str | None:
    is_long_enough = _SHORTEST_KEY <= len(key) <= _LONGEST_KEY
    return base64_fault(key) if is_long_enough else f"has {len(key)}"


def render_tracked(stored: Document, kind: str, properties: Document) -> dict[str, Any]:
    """Write a tracked resource of *kind* for an ARM answer, with *properties* added to its own."""
    return {
        **render_resource(stored, f"{PROVIDER}/{kind}", {**stored["properties"], **properties}),
        "location": stored["location"],
        "tags": stored["tags"],
        **{name: stored[name] for name in _PASSTHROUGH if name in stored},
    }


def render_resource(stored: Document, resource_type: str, properties: Document) -> dict[str, Any]:
    """Write the members that every resource has in an ARM answer."""
    return {
        "id": stored["id"],
        "name": stored["name"],
        "type": resource_type,
        "systemData": None,
        "properties": {**properties, "provisioningState": "Succeeded"},
    }


def patched_resource(
    stored: Document, body: object, what: str, beside: Sequence[str]
) -> dict[str, Any]:
    """
    Return the body of the PUT that has the effect of the PATCH *body*; *what* names the resource.

    A member of the properties, or *beside* them, replaces the stored one; ``null`` removes it.
    """
    form = f"A PATCH of {what} is wrapped in 'properties'"
    patch = read_patch(body, ("properties", *beside), form)
    changed = {name: patch[name] for name in beside if name in patch}
    return {**stored, **changed, **patched_properties(stored["properties"], patch)}


def check_name(root: Section, name: str, what: str, *, longest: int = _LONGEST) -> None:
    """Refuse a *name* that *what* can't have."""
    if not _NAME.fullmatch(name) or not _SHORTEST <= len(name) <= longest:
        message = f"The name of {what} must be {_SHORTEST}-{longest} letters, digits and hyphens."
        root.refuse("name", message)
    if name.casefold().startswith(_RESERVED):
        root.refuse(
            "name", f"The name of {what} can't begin with 'Microsoft', 'EventGrid' or 'System'."
        )


def _check_path(root: Section, path: ArmPath) -> None:
    if not _SUBSCRIPTION.fullmatch(path.subscription):
        root.refuse("id", "The subscription id must be 1-64 letters, digits and hyphens.")
    if not _GROUP.fullmatch(path.group):
        root.refuse(
            "id",
            "The resource group must be 1-90 letters, digits, '_', '-', '.', '(' and ')', "
            "and must not end with '.'.",
        )


def _tags(root: Section, deployment: DeploymentCapabilities) -> Mapping[str, str] | None:
    tags = root.section("tags")
    if len(tags.members) > _MAX_TAGS:
        root.refuse("tags", f"A resource can have at most {_MAX_TAGS} tags.")
    for name, value in tags.members.items():
        if not isinstance(value, str) or len(value) > _MAX_TAG:
            tags.refuse(name, f"A tag must be a string of at most {_MAX_TAG} characters.")
        elif not 0 < len(name) <= _MAX_TAG_NAME:
            root.refuse("tags", f"The name of a tag must be 1-{_MAX_TAG_NAME} characters long.")
        elif name.casefold() == PROFILE_TAG:
            _check_profile(tags, name, value, deployment)
    return tags.members or None


def _check_profile(
    tags: Section, name: str, value: str, deployment: DeploymentCapabilities
) -> None:
    if value not in deployment.profiles:
        known = ", ".join(sorted(deployment.profiles))
        tags.refuse(name, f"There is no delivery profile '{value}'; there are: {known}.")


def account_of(resource_id: str) -> str:
    """Return the account's name, the last segment of its ARM id."""
    return resource_id.rpartition("/")[2]


def parse_passthrough_properties(properties: Section) -> dict[str, Any]:
    """Read the passthrough members of a topic's properties; faults are added to *properties*."""
    return _parse(properties, _PASSTHROUGH_PROPERTIES)


Reader = Callable[[Section, str], Any]  # reads the member of that name


def _parse(section: Section, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Read those of the members that *section* has, without what is invalid or empty."""
    given = [name for name in readers if section.members.get(name) is not None]
    found = {name: readers[name](section, name) for name in given}
    return {name: value for name, value in found.items() if value is not None}


def _choice(*allowed: str, refused: Mapping[str, str] | None = None) -> Reader:
    return lambda section, name: section.choice(name, allowed, refused)


def _object(**readers: Reader) -> Reader:
    return lambda section, name: (
        _parse(section.section(name), readers) if section.has(name) else None
    )


def _objects_by_name(*texts: str) -> Reader:
    readers = dict.fromkeys(texts, Section.text)

    def read(section: Section, name: str) -> Any:
        named = section.named_sections(name)
        return {key: _parse(each, readers) for key, each in named.items()} or None

    return read


def _identity_type(section: Section, name: str) -> str | None:
    kind = section.choice(name, _IDENTITIES)
    return _BOTH if kind and "," in kind else kind


_PASSTHROUGH: Mapping[str, Reader] = {
    "identity": _object(
        type=_identity_type,
        principalId=Section.text,
        tenantId=Section.text,
        userAssignedIdentities=_objects_by_name("principalId", "clientId"),
    ),
    "kind": _choice(
        "Azure",
        refused={"AzureArc": "The kind AzureArc is not supported; the only kind is Azure."},
    ),
    "sku": _object(
        name=_choice(*_SKUS),
        capacity=lambda section, name: section.number(name, 1, _MAX_CAPACITY),
    ),
}
_PASSTHROUGH_PROPERTIES: Mapping[str, Reader] = {
    "dataResidencyBoundary": _choice(*_BOUNDARIES),
    "eventTypeInfo": _object(
        kind=_choice("Inline"),
        inlineEventTypes=_objects_by_name(
            "description", "displayName", "documentationUrl", "dataSchemaUrl"
        ),
    ),
}
PATCHED = ("tags", *_PASSTHROUGH)  # beside the properties
