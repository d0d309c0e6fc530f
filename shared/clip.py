"""Clips what publishers and endpoints have written, wherever it is logged or shown."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from itertools import accumulate, takewhile

LONGEST = 512  # characters
_HTML = re.compile(rb"\s*<(?:!doctype html|html)\b", re.IGNORECASE)
# A comment, a script or style up to its end tag, a declaration, or a tag with its name; the last
# may be cut off.
_MARKUP = re.compile(
    rb"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?=</\1|\Z)|<[!?][^>]*(?:>|\Z)"
    rb"|</?([a-z][a-z0-9]*)[^>]*(?:>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
# Elements that begin and end lines; others stand within words.
_BLOCKS = frozenset(
    {b"br", b"dd", b"div", b"dt", b"hr", b"li", b"p", b"pre", b"td", b"th", b"title", b"tr"}
    | {b"h%d" % level for level in range(1, 7)}
)


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


def without_markup(body: bytes, content_type: str = "") -> bytes:
    """
    Return what an endpoint answered without its BOM and, of HTML, the text of its elements alone.

    Do so before `Secrecy`: without the tags, what stood between them can be a secret.
    """
    body = body.removeprefix(BOM_UTF8)
    if "html" not in content_type.lower() and not _HTML.match(body):
        return body
    lines = _MARKUP.sub(_of_markup, body).splitlines()
    return b"\n".join(filter(None, map(bytes.strip, lines)))


def _of_markup(found: re.Match[bytes]) -> bytes:
    return b"\n" if (found[2] or b"").lower() in _BLOCKS else b""


def as_text(body: bytes) -> str:
    """Return what an endpoint answered, if it is a text: not an image, and not compressed."""
    text = body.decode(errors="replace")
    unreadable = sum(each == "\ufffd" or (each < " " and not each.isspace()) for each in text)
    return "(what is no text)" if 10 * unreadable > len(text) else text
