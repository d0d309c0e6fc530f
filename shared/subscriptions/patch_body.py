"""What the body of a PATCH has to name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from shared.errors import Fault, InvalidDocument


def check_patch(patch: Mapping[str, Any], known: Collection[str], form: str) -> None:
    """
    Refuse the body *patch* if it names members, but none of the *known* ones.

    Who sends such a body has the form wrong, and would believe that something was changed. An
    empty one asks for nothing, and gets it. *form* says what the body has to look like.

    Raises:
        InvalidDocument: nothing known stands in it.
    """
    if patch and patch.keys().isdisjoint(known):
        message = f"{form}; nothing known stands in this body."
        raise InvalidDocument(message, faults=(Fault(code=InvalidDocument.code, message=message),))
