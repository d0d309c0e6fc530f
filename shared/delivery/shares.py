"""Divides the limits of a deployment among the processes that deliver."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

RENEWED_EVERY = 5.0  # seconds
VALID_FOR = 10.0  # seconds for which a share that was read is used
ALIVE_FOR = 30.0  # seconds for which a row that nobody renews is left


class Share(NamedTuple):
    """
    The place of a process, from 0 on, among all that have a row.

    The shares of processes of which each counts all others never exceed a limit together, even if
    some count more than there are.
    """

    place: int
    processes: int

    def of(self, whole: int) -> int:
        """Return its share of a limit; all shares together are the limit, so some may be 0."""
        share, rest = divmod(whole, self.processes)
        return share + (self.place < rest)


ALONE = Share(0, 1)


def share_of(process: str, others: Collection[str]) -> Share:
    """Return the share of *process* beside *others*."""
    return Share(sum(each < process for each in others), len(others) + 1)
