"""Like deliveries, written together: what they have in common once, and where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shared.delivery.delivery import Delivery


class Run(NamedTuple):
    """
    Deliveries, one after the other, of one publish request and with equal counters.

    *sample* is the first of them. *places* says which events of the request they are: how many
    are left out, how many are there, and so on in turn.
    """

    sample: Delivery
    places: list[int]


def runs_of(deliveries: Sequence[Delivery]) -> list[Run]:
    """Divide deliveries into runs, in order."""
    runs: list[Run] = []
    end = 0  # the position after the last one
    for delivery in deliveries:
        if not (runs and _are_alike(runs[-1].sample, delivery)):
            runs.append(Run(delivery, [delivery.position, 1]))
        elif delivery.position == end:
            runs[-1].places[-1] += 1
        else:
            runs[-1].places.extend((delivery.position - end, 1))
        end = delivery.position + 1
    return runs


def positions_of(places: Sequence[int], most: int) -> Iterator[int]:
    """
    Yield the positions that *places* stand for, at most so many.

    Raises:
        ValueError: they stand for none, or for more.
    """
    if not places or len(places) % 2:
        raise ValueError("a run is cut short")
    end = 0
    for left_out, count in zip(places[::2], places[1::2], strict=True):
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
