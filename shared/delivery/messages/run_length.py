"""
Run-length encodes deliveries with equal counters.

Positions are written as spans: the number of positions left out, the number included, and so on
in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shared.delivery.delivery import Delivery


class RunLength(NamedTuple):
    """
    Consecutive deliveries of one publish request that have equal counters.

    *sample* is the first of them. *spans* gives their positions in the request.
    """

    sample: Delivery
    spans: list[int]


def run_lengths(deliveries: Sequence[Delivery]) -> list[RunLength]:
    """Group deliveries into run lengths, in order."""
    runs: list[tuple[Delivery, list[int]]] = []
    for delivery in deliveries:
        if not (runs and _are_alike(runs[-1][0], delivery)):
            runs.append((delivery, []))
        runs[-1][1].append(delivery.position)
    return [RunLength(sample, spans_of(positions)) for sample, positions in runs]


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


def _are_alike(one: Delivery, other: Delivery) -> bool:
    return one.attempts == other.attempts and one.last == other.last and one.origin == other.origin
