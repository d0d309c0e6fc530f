"""Clips what publishers and endpoints have written, wherever it is logged or shown."""

from __future__ import annotations

import json
from itertools import accumulate, takewhile

LONGEST = 512  # characters


def clip(text: str, longest: int = LONGEST) -> str:
    """
    Return *text* if it has at most *longest* characters, otherwise its beginning and ``…``.

    Both together have *longest* characters, so that clipping again changes nothing.
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def clip_ascii(text: str, longest: int) -> str:
    """Clip *text* so that it has at most *longest* characters in ASCII JSON, as rows have it."""
    if _ascii_size(text) <= longest:
        return text
    room, sizes = longest - _ascii_size("…"), accumulate(map(_ascii_size, text))
    return f"{text[: sum(1 for _ in takewhile(lambda size: size <= room, sizes))]}…"


def _ascii_size(text: str) -> int:
    return len(json.dumps(text)) - len('""')


def first_line(text: str, longest: int) -> str:
    """Return the first line that is not blank, clipped."""
    return clip(next((each.strip() for each in text.splitlines() if each.strip()), ""), longest)


def as_text(body: bytes) -> str:
    """Return what an endpoint answered, if it is a text: not an image, and not compressed."""
    text = body.decode(errors="replace")
    unreadable = sum(each == "\ufffd" or (each < " " and not each.isspace()) for each in text)
    return "(what is no text)" if 10 * unreadable > len(text) else text
