"""Clips what publishers and endpoints have written, wherever it is logged or shown."""

from __future__ import annotations

LONGEST = 512  # characters


def clip(text: str, longest: int = LONGEST) -> str:
    """
    Return *text* if it has at most *longest* characters, otherwise its beginning and ``…``.

    Both together have *longest* characters, so that clipping again changes nothing.
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
