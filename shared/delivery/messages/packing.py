"""Groups deliveries into queue messages: what fits into one, and what is due together."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from shared.delivery.delivery import Delivery
from shared.delivery.messages.run_length import runs_of

MAX_STORED = 48 * 1024  # bytes of a queue message; the service's own limit is 64 KiB
MAX_EVENTS = 64  # of one message, if not a batch has more: what one invocation pushes
MAX_UNPACKED = 512 * 1024  # bytes of one message's events in memory; a larger event goes alone
MAX_BLOBS = 8  # payload blobs of one message: whoever delivers it reads them all
EVENT_WIDTH = 72  # bytes that one event's counters take when every one is at its longest
PLACE_WIDTH = 12  # bytes that each further gap among the events of one batch takes
ORIGIN_WIDTH = 160  # bytes that the publish request of an event takes
HEADER_WIDTH = 1024  # bytes of everything else in a message, with the longest names
_SHARE = 0.1  # of a wait by which a delivery may be late for the sake of company …
_LEAST = timedelta(seconds=0.5)
_MOST = timedelta(seconds=3)  # … within these bounds


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


def most_events(batch: int) -> int:
    """Return how many events a message may have where *batch* of them share a request."""
    return batch * max(1, MAX_EVENTS // batch)


def fits(group: Sequence[Delivery], batch: int) -> bool:
    """Tell whether deliveries fit into one message together, now and at every retry."""
    return _most(group) == len(group) and _width(group, _packed(group), batch) <= MAX_STORED


def split(deliveries: Sequence[Delivery], batch: int) -> Iterator[tuple[Sequence[Delivery], str]]:
    """
    Divide deliveries, in order, into groups that fit into a message each, as few as reasonable.

    *batch* is how many events share a request; those that did so before stay together.
    Yields each group and its packed texts.
    """
    start = 0
    while start < len(deliveries):
        count = _most(deliveries[start : start + most_events(batch)])
        while True:
            count = _whole(deliveries, start, count) if batch > 1 else count
            group = deliveries[start : start + count]
            packed = _packed(group)
            width = _width(group, packed, batch)
            if width <= MAX_STORED or count == 1:
                break
            count = max(1, min(count - 1, count * MAX_STORED // width))
        yield group, packed
        start += count


def due_together(
    waiting: Iterable[tuple[datetime, Delivery]], now: datetime
) -> Iterator[tuple[datetime, list[Delivery]]]:
    """
    Group deliveries by when they are due, the soonest first; a group is due with its last one.

    Nothing is ever early, and nothing later than a tenth of its wait, at most 3 s.
    """
    group: list[Delivery] = []
    first = last = now
    for due, delivery in sorted(waiting, key=lambda pair: pair[0]):
        leeway = min(max((first - now) * _SHARE, _LEAST), _MOST)
        if group and due - first > leeway:
            yield last, group
            group = []
        if not group:
            first = due
        group.append(delivery)
        last = due
    if group:
        yield last, group


def _packed(group: Sequence[Delivery]) -> str:
    inline = [delivery.text for delivery in group if delivery.text is not None]
    return pack(inline) if inline else ""


def _width(group: Sequence[Delivery], packed: str, batch: int) -> int:
    """
    Reckon how long the message can become.

    Events that are pushed one by one have counters of their own after that; a batch keeps sharing
    them, and batches need not share a message.
    """
    origins = len({delivery.origin for delivery in group})
    if batch > 1:
        runs = runs_of(group)
        gaps = sum(len(run.places) // 2 - 1 for run in runs)
        counters = EVENT_WIDTH * len(runs) + PLACE_WIDTH * gaps
    else:
        counters = EVENT_WIDTH * len(group)
    return HEADER_WIDTH + ORIGIN_WIDTH * origins + counters + len(packed)


def _whole(deliveries: Sequence[Delivery], start: int, count: int) -> int:
    """Return *count*, or fewer so that no request's events are torn apart, if there are others."""
    end = start + count
    if end == len(deliveries):
        return count
    while end > start and deliveries[end].was_tried_with(deliveries[end - 1]):
        end -= 1
    return end - start or count


def _most(group: Sequence[Delivery]) -> int:
    """Return how many deliveries, at least one, stay within the limits of memory."""
    size = 0
    blobs: set[object] = set()
    for count, delivery in enumerate(group):
        if delivery.text is None:
            blobs.add(delivery.origin)
        else:
            size += len(delivery.text)
        if size > MAX_UNPACKED or len(blobs) > MAX_BLOBS:
            return max(1, count)
    return len(group)
