"""When requests may go to an endpoint that has granted so many a minute."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

_WINDOW = timedelta(seconds=61)  # a minute, and a second that requests may differ on their way


class Allowance(NamedTuple):
    """
    What requests were let go and turned away so far.

    *even_at* is when the next one would be due if all came evenly; those turned away have places up
    to *line_until*.
    """

    even_at: datetime
    line_until: datetime


def ask(before: Allowance | None, rate: int, now: datetime) -> tuple[Allowance, datetime | None]:
    """
    Ask for one request more at *rate* a minute; ``None`` with the allowance: it may go now.

    Otherwise it gets a place in a line, which is when it should ask again. In no minute more than
    *rate* go: a tenth of them may come at once, and the others' pace makes up for that.

    Source: CloudEvents web hooks, section 4.2 (``WebHook-Allowed-Rate``); the pace is ours.
    """
    at_once = 1 + rate // 10
    step = _WINDOW / (rate - at_once + 1)
    even_at, line_until = before or Allowance(now, now)
    soonest = even_at - (at_once - 1) * step
    if soonest <= now:
        return Allowance(max(even_at, now) + step, line_until), None
    place = max(soonest, line_until)
    return Allowance(even_at, place + step), place
