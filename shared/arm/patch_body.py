"""The body of a PATCH: what it has to name, and what becomes of the properties in it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from shared.arm.sections import document, raise_faults
from shared.errors import Fault, InvalidDocument

Merge = Callable[[Any, Any], Any]


def read_patch(body: object, known: Collection[str], form: str) -> Mapping[str, Any]:
    """
    Return the members of *body*; it has to name some of the *known* ones.

    Who sends another one has the form wrong, and would believe that something was changed. An
    empty one asks for nothing, and gets it. *form* says what the body has to look like.

    Raises:
        InvalidDocument: it is no object, or nothing known stands in it.
    """
    root = document(body)
    raise_faults(root.faults)
    if root.members and root.members.keys().isdisjoint(known):
        message = f"{form}; nothing known stands in this body."
        raise InvalidDocument(message, faults=(Fault(code=InvalidDocument.code, message=message),))
    return root.members


def patched_properties(
    known: Mapping[str, Any], patch: Mapping[str, Any], merge: Merge = operator.or_
) -> dict[str, Any]:
    """Return the ``properties`` of a PUT that does what a PATCH asks for."""
    given = patch.get("properties")
    if isinstance(given, dict):
        given = merge(known, given)
    return {"properties": known if given is None else given}
