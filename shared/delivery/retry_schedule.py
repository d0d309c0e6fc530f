"""Computes when a retry is due by a profile's schedule; the numbers are in ``profiles.py``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shared.clock import in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySchedule:
    """
    When attempts 2, 3, 4 … are due.

    The *steps* are waits after the failed attempt or, with *by_age*, ages of the event; *tail*
    repeats after them (``None``: there is no further attempt). *jitter_share* of a wait, at most
    *jitter_limit*, is added at random.
    """

    steps: tuple[timedelta, ...]
    tail: timedelta | None
    by_age: bool = False
    jitter_share: float = 0.1
    jitter_limit: timedelta = timedelta(seconds=3)

    def wait_after(
        self, attempts: int, age: timedelta, time_to_live: timedelta
    ) -> tuple[timedelta, str]:
        """Return the wait after attempt number *attempts*, and the name of its step."""
        beyond = attempts - len(self.steps)
        if self.tail is None and beyond > 0:
            # The event waits for its expiry, which is checked when it is due (contract §3.3, 15).
            return time_to_live - age, "the schedule is exhausted; waiting for expiry"
        step = self.steps[attempts - 1] if beyond <= 0 else self.tail or timedelta()
        if not self.by_age:
            name = f" step {attempts}: " if beyond <= 0 else ": every "
            return step, f"schedule{name}{in_words(step)}"
        due = step if beyond <= 0 else self.steps[-1] + beyond * step
        return max(due - age, timedelta()), f"schedule: {in_words(due)} after publish"
