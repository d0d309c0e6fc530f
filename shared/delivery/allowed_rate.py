"""Limits the requests to an endpoint to its allowed rate, which it has granted."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from shared.delivery.furthest import LONGEST_PUT_BACK

_WINDOW = timedelta(seconds=61)  # a minute, and a second of difference in transit


class Allowance(NamedTuple):
    """
    The state of one endpoint's limit.

    *even_at* is when the next request would be due if all came evenly; those that were refused have
    times up to *line_until*.
    """

    even_at: datetime
    line_until: datetime


def ask(before: Allowance | None, rate: int, now: datetime) -> tuple[Allowance, datetime | None]:
    """
    Ask for one more request at *rate* a minute; return the new state, and when to ask again.

    ``None`` as that time: the request may go now. Otherwise requests get times one after the other.
    No minute has more than *rate* requests: a tenth may come at once, the others evenly spread.
    Nobody is told to ask again after more than `LONGEST_PUT_BACK`.

    Source: CloudEvents web hooks, section 4.2 (``WebHook-Allowed-Rate``); the pace is ours.
    """
    at_once = 1 + rate // 10
    step = _WINDOW / (rate - at_once + 1)
    even_at, line_until = before or Allowance(now, now)
    # Neither is ever further ahead, unless the clock has jumped.
    even_at, line_until = (
        min(even_at, now + at_once * step),
        min(line_until, now + LONGEST_PUT_BACK),
    )
    soonest = even_at - (at_once - 1) * step
    if soonest <= now:
        return Allowance(max(even_at, now) + step, line_until), None
    again_at = max(soonest, line_until)
    return Allowance(even_at, again_at + step), again_at
