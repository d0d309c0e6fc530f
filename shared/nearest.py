"""Finds the name that was meant by one that is not there."""

from __future__ import annotations

from collections.abc import Collection, Iterable

MISSPELT = 2  # letters in which a name differs from the one that was meant


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """
    Return the end of a sentence that says *name* does not exist: the nearest *known* name, or a
    full stop.

    Use it only for callers who may list the names.
    """
    # A name that is there already is elsewhere, and not meant.
    others = [each for each in known if each.casefold() != name.casefold()]
    near = nearest(name, others, MISSPELT)
    return f"; did you mean '{near}'?" if near else "."


def nearest(name: str, known: Collection[str], most: int | None = None) -> str | None:
    """
    Return that of the *known* names which an unknown *name* is like.

    Less than half of its letters differ, and at most *most*, if that is given; case does not count.
    """
    letters = name.strip().casefold()
    half = (len(letters) - 1) // 2
    found, least = None, (half if most is None else min(most, half)) + 1
    for each in known:
        distance = _distance(letters, each.casefold(), least)
        if distance < least:
            found, least = each, distance
    return found


def _distance(one: str, other: str, enough: int) -> int:
    """
    Return how many letters are missing, added, wrong or exchanged with the next one.

    It may be any number from *enough* on where it is not smaller.
    """
    if abs(len(one) - len(other)) >= enough:
        return enough
    before: list[int] = []
    last = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        row = [at]
        for to, wanted in enumerate(other, start=1):
            cost = min(last[to] + 1, row[to - 1] + 1, last[to - 1] + (letter != wanted))
            if before and to > 1 and one[at - 2 : at] == wanted + other[to - 2]:
                cost = min(cost, before[to - 2] + 1)
            row.append(cost)
        if min(row) >= enough:
            return enough
        before, last = last, row
    return last[-1]
