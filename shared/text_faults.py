"""Finds the first of known faults that a text has."""

from __future__ import annotations

import re
from collections.abc import Sequence

TextFaults = Sequence[tuple[str, str]]  # patterns, and what is said of a text that begins so


def text_fault(faults: TextFaults, text: str) -> str | None:
    """Return what the first pattern says that *text* begins with; ``None`` if there is none."""
    return next((says for pattern, says in faults if re.match(pattern, text, re.DOTALL)), None)
