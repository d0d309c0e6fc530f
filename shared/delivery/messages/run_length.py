"""
Run-length encodes deliveries: equal counters, and consecutive positions.

Positions are written as spans: the number of positions left out, the number included, and so on
in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from shared.delivery.delivery import Delivery, LastAttempt, Origin


class RunLength(NamedTuple):
    """The counters of some consecutive deliveries."""

    size: int
    attempts: int
    last: LastAttempt | None


def run_lengths(deliveries: Sequence[Delivery]) -> list[RunLength]:
    """Group deliveries with equal counters, in order."""
    runs = groupby(deliveries, lambda each: (each.attempts, each.last))
    return [RunLength(sum(1 for _ in group), *counters) for counters, group in runs]


def positions_by_origin(events: Sequence[Delivery]) -> list[tuple[Origin, list[int]]]:
    """Group consecutive events of one publish request; return the spans of their positions."""
    return [
        (origin, spans_of([event.position for event in group]))
        for origin, group in groupby(events, lambda each: each.origin)
    ]


def spans_of(positions: Sequence[int]) -> list[int]:
    """Return the spans that give *positions*, in order."""
    spans: list[int] = []
    end = -1  # the position after the last one; -1 is before any
    for position in positions:
        if position == end:
            spans[-1] += 1
        else:
            spans += (position - max(end, 0), 1)
        end = position + 1
    return spans


def positions_of(spans: Sequence[int], most: int) -> Iterator[int]:
    """
    Yield the positions that *spans* give.

    Raises:
        ValueError: there are none, or more than *most*, or one is negative.
    """
    if not spans or len(spans) % 2:
        raise ValueError("a run length is cut short")
    end = 0
    for left_out, count in zip(spans[::2], spans[1::2], strict=True):
        most -= count
        if type(left_out) is not int or type(count) is not int or count < 1 or most < 0:
            raise ValueError("a number of events is out of range")
        start = end + left_out
        if start < 0:
            raise ValueError("a position is out of range")
        end = start + count
        yield from range(start, end)
