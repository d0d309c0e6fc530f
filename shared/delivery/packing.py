"""How many events fit into one queue message."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence

MAX_STORED = 48 * 1024  # bytes of a queue message; the service's own limit is 64 KiB
MAX_EVENTS = 64  # of one message: what one invocation pushes
MAX_UNPACKED = 512 * 1024  # bytes of one message's events in memory; a larger event goes alone
MAX_BLOBS = 8  # payload blobs of one message: whoever delivers it reads them all
EVENT_WIDTH = 72  # bytes that one event's counters take when every one is at its longest
ORIGIN_WIDTH = 160  # bytes that the publish request of an event takes
HEADER_WIDTH = 1024  # bytes of everything else in a message, with the longest names


def pack(texts: Sequence[str]) -> str:
    """Return events' texts, each one line of ASCII, as one short text that is legal XML."""
    return base64.b64encode(zlib.compress("\n".join(texts).encode("ascii"), 1)).decode("ascii")


def unpack(packed: str) -> list[str]:
    """Return the texts again. Raises ValueError or zlib.error if *packed* is damaged."""
    if not packed:
        return []
    return zlib.decompress(base64.b64decode(packed, validate=True)).decode("ascii").split("\n")


def fits_inline(text: str) -> bool:
    """Tell whether an event fits into a message of its own, now and at every retry."""
    room = MAX_STORED - HEADER_WIDTH - ORIGIN_WIDTH - EVENT_WIDTH
    shortest_that_may_not = room // 2  # base64 and zlib never double a text
    return len(text) <= shortest_that_may_not or len(pack([text])) <= room


def split(texts: Sequence[str | None], origins: Sequence[object]) -> Iterator[tuple[int, str]]:
    """
    Divide events, in order, into groups that fit into a message each, as few as reasonable.

    ``None`` is an event that is kept elsewhere. *origins* are the events' publish requests.
    Yields the number of events of each group and its packed texts.
    """
    start = 0
    while start < len(texts):
        most = slice(start, start + MAX_EVENTS)
        count = _most(texts[most], origins[most])
        while True:
            end = start + count
            inline = [text for text in texts[start:end] if text is not None]
            packed = pack(inline) if inline else ""
            width = HEADER_WIDTH + EVENT_WIDTH * count + len(packed)
            width += ORIGIN_WIDTH * len(set(origins[start:end]))
            if width <= MAX_STORED or count == 1:
                break
            count = max(1, min(count - 1, count * MAX_STORED // width))
        yield count, packed
        start = end


def _most(texts: Sequence[str | None], origins: Sequence[object]) -> int:
    """Return how many events, at least one, stay within the limits of memory."""
    size = 0
    blobs: set[object] = set()
    for count, (text, origin) in enumerate(zip(texts, origins, strict=True)):
        if text is None:
            blobs.add(origin)
        else:
            size += len(text)
        if size > MAX_UNPACKED or len(blobs) > MAX_BLOBS:
            return max(1, count)
    return len(texts)
