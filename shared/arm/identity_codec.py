"""
Destinations wrapped with a managed identity: taken apart when read, put together when written.

The identity changes nothing here: webhooks get no token by it, and blobs are those of the app's
own account, which the app's own identity writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shared.arm.sections import Section

_TYPES = ("SystemAssigned", "UserAssigned")


class Wrapper(NamedTuple):
    """A member that is given plainly under its name or, with an identity, as *wrapped*."""

    name: str
    wrapped: str


DELIVERY = Wrapper("destination", "deliveryWithResourceIdentity")
DEAD_LETTER = Wrapper("deadLetterDestination", "deadLetterWithResourceIdentity")


def unwrap(holder: Section, wrapper: Wrapper) -> tuple[Section, dict[str, Any] | None]:
    """Return the object that has the plain member, and the identity if there is one."""
    if not holder.has(wrapper.wrapped):
        return holder, None
    if holder.has(wrapper.name):
        holder.refuse(wrapper.wrapped, f"{wrapper.name} and {wrapper.wrapped} exclude each other.")
    wrapped = holder.section(wrapper.wrapped)
    identity = wrapped.section("identity")
    kind = identity.required_choice("type", _TYPES)
    user = identity.text("userAssignedIdentity")
    return wrapped, {"type": kind, "userAssignedIdentity": user}


def wrap(wrapper: Wrapper, value: object, identity: Mapping[str, Any] | None) -> dict[str, Any]:
    """Write the member as it was given: the plain one is null where it is wrapped."""
    if identity is None:
        return {wrapper.name: value}
    return {
        wrapper.name: None,
        wrapper.wrapped: {"identity": dict(identity), wrapper.name: value},
    }


def replace_wrapped(
    members: Mapping[str, Any], patch: Mapping[str, Any], wrappers: Sequence[Wrapper]
) -> dict[str, Any]:
    """Change *members* to those of *patch*; of the two forms of a member the newer one stays."""
    kept = dict(members)
    for plain, wrapped in wrappers:
        if patch.get(plain) is not None or patch.get(wrapped) is not None:
            kept = {name: value for name, value in kept.items() if name not in (plain, wrapped)}
    return kept | dict(patch)
