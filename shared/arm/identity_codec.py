"""
Unwraps and wraps destinations that are given with a managed identity.

Whichever is named, it means the app's own identity, the only one there is: dead letters are written
and events are put into queues with it, or with a connection string of the deployment. A webhook
needs none: it gets a token only if it names an Entra ID application.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from shared.arm.sections import Document, Section

_TYPES = ("SystemAssigned", "UserAssigned")


class Wrapper(NamedTuple):
    """A member that is given either directly or, with an identity, inside another."""

    name: str
    wrapped: str


DELIVERY = Wrapper("destination", "deliveryWithResourceIdentity")
DEAD_LETTER = Wrapper("deadLetterDestination", "deadLetterWithResourceIdentity")


def unwrap(holder: Section, wrapper: Wrapper) -> tuple[Section, dict[str, Any] | None]:
    """Return the section that holds the member itself, and the identity if there is one."""
    if not holder.has(wrapper.wrapped):
        return holder, None
    if holder.has(wrapper.name):
        holder.refuse(wrapper.wrapped, f"{wrapper.name} and {wrapper.wrapped} exclude each other.")
    wrapped = holder.section(wrapper.wrapped)
    identity = wrapped.section("identity")
    kind = identity.required_choice("type", _TYPES)
    user = identity.text("userAssignedIdentity")
    return wrapped, {"type": kind, "userAssignedIdentity": user}


def wrap(wrapper: Wrapper, value: object, identity: Document | None) -> dict[str, Any]:
    """Write the member in the form in which it was given; wrapped, its direct form is null."""
    if identity is None:
        return {wrapper.name: value}
    return {wrapper.name: None, wrapper.wrapped: {"identity": dict(identity), wrapper.name: value}}


def replace_wrapped(
    members: Document, patch: Document, wrappers: Sequence[Wrapper]
) -> dict[str, Any]:
    """Return *members* updated from *patch*, which replaces a member in either of its forms."""
    kept = dict(members)
    for plain, wrapped in wrappers:
        if any(patch.get(each) not in (None, "") for each in (plain, wrapped)):
            kept = {name: value for name, value in kept.items() if name not in (plain, wrapped)}
    return kept | dict(patch)
