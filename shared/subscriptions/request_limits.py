"""Defines the limits that an operator sets to the requests of a subscription."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

# In ARM documents delivery attributes, whose values are the limits: see signing.py.
AT_ONCE, A_SECOND = "webhook-max-requests", "webhook-max-rate"
MOST = 100_000
_NUMBER = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)


class RequestLimits(NamedTuple):
    """The most requests of the whole deployment; ``None``: no limit."""

    at_once: int | None = None
    a_second: int | None = None


NO_LIMITS = RequestLimits()
_WORDS = {"atOnce": "at a time", "perSecond": "a second", "perMinute": "a minute, as it allows"}


def limits_document(
    limits: RequestLimits, a_minute: int | None, count_processes: Callable[[], int]
) -> dict[str, Any]:
    """
    Return as JSON members the limits that are set, the processes that share them, and a sentence.

    *a_minute* is the rate that the endpoint allows. Without any limit nothing is counted.
    """
    values = limits.at_once, limits.a_second, a_minute
    wholes = {name: value for name, value in zip(_WORDS, values, strict=True) if value is not None}
    if not wholes:
        return {}
    processes = count_processes()
    words = " and ".join(f"{value} {_WORDS[name]}" for name, value in wholes.items())
    return {
        **wholes,
        "processes": processes,
        "text": f"at most {words}; {_shared(wholes.values(), processes)}",
    }


def _shared(wholes: Iterable[int], processes: int) -> str:
    if processes == 0:
        return "no process has sent to it yet"
    if processes == 1:
        return "one process has all of it"
    parts = " and ".join(_part(each, processes) for each in wholes)
    return f"{processes} processes share it: {parts} each"


def _part(whole: int, processes: int) -> str:
    least, rest = divmod(whole, processes)
    return f"{least} or {least + 1}" if rest else str(least)


def is_limit(name: object) -> bool:
    """Tell whether a delivery attribute is one of the two that hold limits."""
    return isinstance(name, str) and name.casefold() in (AT_ONCE, A_SECOND)


def parse_limit(text: str) -> int:
    """
    Return the limit in *text*.

    Raises:
        ValueError: what is wrong with it.
    """
    if not _NUMBER.fullmatch(text) or int(text) > MOST:
        raise ValueError(f"must be a whole number between 1 and {MOST}, as text")
    return int(text)
