"""Run-length encodes deliveries with equal counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shared.delivery.delivery import Delivery


class RunLength(NamedTuple):
    """
    Consecutive deliveries of one publish request that have equal counters.

    *sample* is the first of them. *spans* gives their positions in the request: the number of
    positions left out, the number included, and so on in turn.
    """

    sample: Delivery
    spans: list[int]


def run_lengths(deliveries: Sequence[Delivery]) -> list[RunLength]:
    """Group deliveries into run lengths, in order."""
    runs: list[RunLength] = []
    end = 0  # the position after the last one
    for delivery in deliveries:
        if not (runs and _are_alike(runs[-1].sample, delivery)):
            runs.append(RunLength(delivery, [delivery.position, 1]))
        elif delivery.position == end:
            runs[-1].spans[-1] += 1
        else:
            runs[-1].spans.extend((delivery.position - end, 1))
        end = delivery.position + 1
    return runs


def positions_of(spans: Sequence[int], most: int) -> Iterator[int]:
    """
    Yield the positions that *spans* give.

    Raises:
        ValueError: there are none, or more than *most*.
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
