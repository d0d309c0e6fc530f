"""Groups deliveries into queue messages: what fits into one, and what is due together."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from shared.delivery.delivery import Delivery, Origin
from shared.delivery.messages.run_length import positions_by_origin, run_lengths

T = TypeVar("T")

MAX_MESSAGE_EVENTS = 64  # unless a batch has more; one invocation pushes them
MAX_UNPACKED = 512 * 1024  # bytes of one message's events in memory; a larger event goes alone
MAX_EVENT = 5 * 1024 * 1024  # bytes of such an event: a request of 1.5 MB, escaped for ASCII
MAX_BLOBS = 8  # payload blobs of one message: delivering it reads them all
EVENT_WIDTH = 72  # bytes of one event's counters at their longest
GAP_WIDTH = 12  # bytes of each further gap among the events of one batch
ORIGIN_WIDTH = 160  # bytes of an event's publish request, without its trace
_TRACE_WIDTH = 8  # bytes of a trace, without its texts
HEADER_WIDTH = 1024  # bytes of everything else in a message, with the longest names
_LEEWAY_SHARE = 0.1  # of its wait: how much later a delivery may be due to share a message
_LEAST_LEEWAY = timedelta(seconds=0.5)
_MOST_LEEWAY = timedelta(seconds=3)


def pack(texts: Sequence[str]) -> str:
    """Compress events' texts, each one line of ASCII, into one text that is legal in XML."""
    return base64.b64encode(zlib.compress("\n".join(texts).encode("ascii"), 1)).decode("ascii")


def packed(events: Sequence[Delivery]) -> str:
    """Pack the texts of events that are not in a payload blob, if there are any."""
    inline = [event.inline for event in events if event.inline is not None]
    return pack(inline) if inline else ""


def unpack(packed: str, count: int) -> list[str]:
    """
    Return *count* texts; reads no more than a message of so many events may have.

    Raises:
        ValueError, zlib.error: *packed* is damaged, too large, or has another number of texts.
    """
    limit = MAX_EVENT if count == 1 else MAX_UNPACKED + count - 1
    inflater = zlib.decompressobj()
    raw = inflater.decompress(base64.b64decode(packed, validate=True), limit + 1) if packed else b""
    if len(raw) > limit or (packed and not inflater.eof):
        raise ValueError("the events are cut short, or too large")
    texts = raw.decode("ascii").split("\n") if packed else []
    if len(texts) != count:
        raise ValueError(f"{len(texts)} events instead of {count}")
    return texts


def fits_inline(text: str, origin: Origin, message_size: int) -> bool:
    """Tell whether an event fits into a message of its own, now and at every retry."""
    room = message_size - HEADER_WIDTH - origins_width([origin]) - EVENT_WIDTH
    shortest_that_may_not = room // 2  # base64 and zlib never double a text
    return len(text) <= shortest_that_may_not or len(pack([text])) <= room


def origins_width(origins: Collection[Origin]) -> int:
    """Return the longest text that publish requests can have in a message."""
    width = ORIGIN_WIDTH * len(origins)
    for origin in origins:
        if origin.trace:
            width += _TRACE_WIDTH + sum(map(len, origin.trace))
    return width


def most_events(batch_size: int) -> int:
    """Return the most events of a message if *batch_size* of them share a request."""
    return batch_size * max(1, MAX_MESSAGE_EVENTS // batch_size)


def surely_fits(group: Sequence[Delivery], batch_size: int, message_size: int) -> bool:
    """Tell, without packing them, whether deliveries are few and small enough for one message."""
    size = sum(len(delivery.inline or "") + 1 for delivery in group)
    if 2 * size > message_size or _within_memory(group) < len(group):
        return False
    # Base64 and zlib never double a text.
    return _width(group, 2 * size, batch_size) <= message_size


def split(
    deliveries: Sequence[Delivery],
    batch_size: int,
    message_size: int,
    pack_some: Callable[[Sequence[Delivery]], str],
) -> Iterator[Sequence[Delivery]]:
    """
    Divide deliveries, in order, into groups that fit into a message each, as few as reasonable.

    At most *batch_size* events share a request; those that did so before stay together. *pack_some*
    packs events where they may not fit.
    """
    left = deliveries
    while left:
        count = _within_memory(left[: most_events(batch_size)])
        while True:
            count = _whole_batches(left, count) if batch_size > 1 else count
            group = left[:count]
            if count == 1 or surely_fits(group, batch_size, message_size):
                break
            width = _width(group, len(pack_some(group)), batch_size)
            if width <= message_size:
                break
            count = max(1, min(count - 1, count * message_size // width))
        yield group
        left = left[count:]


def due_together(
    waiting: Iterable[tuple[datetime, T]], now: datetime
) -> Iterator[tuple[datetime, list[T]]]:
    """
    Group deliveries, or what has them, by due time, the soonest first.

    A group is due with its last delivery. None is early, and none later than a tenth of its wait,
    at most 3 s.
    """
    group: list[T] = []
    first = last = now
    for due, each in sorted(waiting, key=lambda pair: pair[0]):
        leeway = min(max((first - now) * _LEEWAY_SHARE, _LEAST_LEEWAY), _MOST_LEEWAY)
        if group and due - first > leeway:
            yield last, group
            group = []
        if not group:
            first = due
        group.append(each)
        last = due
    if group:
        yield last, group


def _width(group: Sequence[Delivery], packed: int, batch_size: int) -> int:
    """
    Return the longest text that the message can have at any retry; *packed* is that of its events.

    Events that are pushed one by one get counters of their own; those of a batch keep sharing
    theirs, and batches need not share a message.
    """
    counters = EVENT_WIDTH * len(group)
    if batch_size > 1:
        spans = [spans for _, spans in positions_by_origin(group)]
        gaps = sum(len(each) // 2 for each in spans)
        counters = EVENT_WIDTH * len(run_lengths(group)) + GAP_WIDTH * (gaps + len(spans))
    origins = origins_width({delivery.origin for delivery in group})
    return HEADER_WIDTH + origins + counters + packed


def _whole_batches(deliveries: Sequence[Delivery], count: int) -> int:
    """Return *count*, or fewer so that events of one request stay together, where possible."""
    end = count
    if end == len(deliveries):
        return count
    while end and deliveries[end].was_tried_with(deliveries[end - 1]):
        end -= 1
    return end or count


def _within_memory(group: Sequence[Delivery]) -> int:
    """Return how many deliveries, at least one, are within the limits of memory."""
    size = 0
    blobs: set[object] = set()
    for count, delivery in enumerate(group):
        if delivery.inline is None:
            blobs.add(delivery.origin.payload)
        else:
            size += len(delivery.inline)
        if size > MAX_UNPACKED or len(blobs) > MAX_BLOBS:
            return max(1, count)
    return len(group)
