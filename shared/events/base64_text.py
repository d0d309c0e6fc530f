"""Says what is wrong with a text that should be Base64."""

from __future__ import annotations

from shared.text_faults import TextFaults, text_fault

_FAULTS: TextFaults = (
    (r".*\s", "has a blank or a line break: leave it out"),
    (r"[A-Za-z0-9+/=_-]*[_-]", "is Base64 for URLs: write '+' for '-' and '/' for '_'"),
    (
        r".*[^A-Za-z0-9+/=]",
        "has a character that is not of Base64: it may have A-Z, a-z, 0-9, '+', '/', then '='",
    ),
    (r"=|.*=[^=]", "has '=' before its end: it ends Base64, so copy the text anew"),
)
_GROUP, _MOST_PADDING = 4, 2  # characters


def base64_fault(text: str) -> str | None:
    """Return what is wrong with a *text* and what to do, without quoting it; ``None``: nothing."""
    if fault := text_fault(_FAULTS, text):
        return fault
    content = text.rstrip("=")
    padding = "=" * (-len(content) % _GROUP)
    if len(padding) > _MOST_PADDING:
        return "has a character too few or too many: copy the text anew"
    if text != content + padding:
        wanted = f"'{padding}'" if padding else "no '='"
        return f"has wrong padding: its Base64 must end with {wanted}"
    return None
