"""Tracked resources: where they are (ARM ids), and what each has beside its properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.arm.deployment import Deployment
from shared.arm.passthrough_members import PASSTHROUGH, parse_passthrough
from shared.arm.patch_body import patched_properties, read_patch
from shared.arm.sections import Section

PROVIDER = "Microsoft.EventGrid"
PROFILE_TAG = "deliveryProfile".casefold()  # tags have no case
_SUBSCRIPTION = re.compile(r"[A-Za-z0-9-]{1,64}")
_GROUP = re.compile(r"[A-Za-z0-9_.()-]{0,89}[A-Za-z0-9_()-]")  # no full stop at the end
_NAME = re.compile(r"[A-Za-z0-9-]{3,50}")
_RESERVED = ("microsoft", "eventgrid", "system")
_PATCHED = ("tags", *PASSTHROUGH)  # beside the properties
_MAX_TAGS, _MAX_TAG_NAME, _MAX_TAG = 50, 512, 256


class ArmPath(NamedTuple):
    """Where a tracked resource is: the names in its ARM id. *kind* is ``topics``, for example."""

    subscription: str
    group: str
    kind: str
    name: str

    @property
    def arm_id(self) -> str:
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
            f"/providers/{PROVIDER}/{self.kind}/{self.name}"
        )


def parse_resource(
    root: Section, path: ArmPath, deployment: Deployment, existing: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Read what a resource has beside its properties; an *existing* one keeps its id."""
    _check_path(root, path)
    return {
        "id": existing["id"] if existing else path.arm_id,
        "name": existing["name"] if existing else path.name,
        "location": root.text("location") or "global",
        "tags": _tags(root, deployment),
        **parse_passthrough(root),
    }


def render_resource(stored: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Write what a resource has beside its properties."""
    return {
        "id": stored["id"],
        "name": stored["name"],
        "type": f"{PROVIDER}/{kind}",
        "location": stored["location"],
        "tags": stored["tags"],
        **{name: stored[name] for name in PASSTHROUGH if name in stored},
        "systemData": None,
    }


def patched_resource(stored: Mapping[str, Any], body: object, what: str) -> dict[str, Any]:
    """
    Return the body of a PUT that does what the *body* of a PATCH of *what* asks for.

    Each member replaces what is there; ``null`` takes it away.

    Raises:
        InvalidDocument: the body can't be read, or names nothing known.
    """
    form = f"A PATCH of {what} is wrapped in 'properties'"
    patch = read_patch(body, ("properties", *_PATCHED), form)
    changed = {name: patch[name] for name in _PATCHED if name in patch}
    return {**stored, **changed, **patched_properties(stored["properties"], patch)}


def check_name(root: Section, name: str, what: str) -> None:
    """Refuse what can't be the name of *what*."""
    if not _NAME.fullmatch(name):
        root.refuse("name", f"The name of {what} must be 3-50 letters, digits and hyphens.")
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
            "without '.' at its end.",
        )


def _tags(root: Section, deployment: Deployment) -> Mapping[str, str] | None:
    tags = root.section("tags")
    if len(tags.members) > _MAX_TAGS:
        root.refuse("tags", f"A resource can have {_MAX_TAGS} tags.")
    for name, value in tags.members.items():
        if not isinstance(value, str) or len(value) > _MAX_TAG:
            tags.refuse(name, f"A tag must be a string of at most {_MAX_TAG} characters.")
        elif not 0 < len(name) <= _MAX_TAG_NAME:
            root.refuse("tags", f"The name of a tag must be 1-{_MAX_TAG_NAME} characters long.")
        elif name.casefold() == PROFILE_TAG:
            _check_profile(tags, name, value, deployment)
    return tags.members or None


def _check_profile(tags: Section, name: str, value: str, deployment: Deployment) -> None:
    if value not in deployment.profiles:
        known = ", ".join(sorted(deployment.profiles))
        tags.refuse(name, f"There is no delivery profile '{value}'; there are: {known}.")
