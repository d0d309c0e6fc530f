"""Turns the body of a PATCH into the body of the equivalent PUT."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from shared.arm.sections import document, raise_faults
from shared.errors import InvalidDocument

Merge = Callable[[Any, Any], Any]


def read_patch(body: object, known: Collection[str], form: str) -> Mapping[str, Any]:
    """
    Return the members of *body*.

    An empty body changes nothing. A body with none of the *known* members has the wrong form and is
    refused, so that its sender does not believe in a change. *form* describes the right form.

    Raises:
        InvalidDocument: the body is not an object, or has no known member.
    """
    root = document(body)
    raise_faults(root.faults)
    if root.members and root.members.keys().isdisjoint(known):
        raise InvalidDocument(f"{form}; this body has no known member.")
    return root.members


def patched_properties(
    known: Mapping[str, Any], patch: Mapping[str, Any], merge: Merge = operator.or_
) -> dict[str, Any]:
    """Return the ``properties`` of the PUT that has the effect of *patch*."""
    given = patch.get("properties")
    if isinstance(given, dict):
        given = merge(known, given)
    return {"properties": known if given is None else given}
