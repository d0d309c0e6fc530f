"""Bounds the connections to one host and port that are being opened at the same time."""

from __future__ import annotations

import math
from typing import NamedTuple

FIRST = 5  # the shortest accept queue in use, Python's: the SYN of one more is dropped
LEAST = 2
MOST = 1024
COUNTED = 0.25  # seconds: whoever has not answered by then has accepted, or is silent
REPEATED_SYN = 0.9  # seconds of a connect: systems send a lost SYN again after 1 s
_WANTED = 1.0  # seconds since a refusal in which more is wanted than the bound allows
_FULL = 2.0  # seconds in which more was wanted: longer than a lost SYN takes to show


class OpeningBound(NamedTuple):
    """
    The bound of one host and port.

    A connection counts from its permission until its first answer, but for `COUNTED` at most. While
    more are wanted, the bound grows by one for each connection that the peer keeps after its first
    answer, or that it has accepted and not answered while it counted: so it doubles each round. A
    peer that closes after each answer may be one that takes a single connection at a time: for it
    the bound doubles only after more was wanted for two seconds. A connect that takes as long as a
    repeated SYN halves it: once for all that began before.
    """

    value: int = FIRST
    opening: int = 0  # connections that count
    refused_at: float = -math.inf  # the latest refusal; times are seconds
    wanted_since: float = -math.inf  # the first of refusals in a row
    narrowed_at: float = -math.inf

    @property
    def has_room(self) -> bool:
        return self.opening < self.value

    def ask(self, now: float) -> tuple[OpeningBound, bool]:
        """Ask for one more connection; return the new state, and whether it may be opened."""
        if self.has_room:
            return self.counted(), True
        return self.refused(now), False

    def refused(self, now: float) -> OpeningBound:
        """Learn that one more is wanted than may be opened."""
        since = self.wanted_since if self._is_wanted(now) else now
        return self._replace(refused_at=now, wanted_since=since)

    def counted(self) -> OpeningBound:
        """Count one more connection."""
        return self._replace(opening=self.opening + 1)

    def released(self) -> OpeningBound:
        """Count one less: it failed, was not needed, or is not connected after `COUNTED`."""
        return self._replace(opening=self.opening - 1)

    def accepted(self, now: float) -> OpeningBound:
        """Learn that the peer has accepted a connection, and not answered while it counted."""
        return self._wider(self.value + 1) if self._is_wanted(now) else self

    def answered(self, now: float, *, kept: bool) -> OpeningBound:
        """Learn of the first answer of a connection, which the peer has *kept* or closes."""
        if kept:
            return self.accepted(now)
        full_since = max(self.wanted_since, self.narrowed_at)
        if not self._is_wanted(now) or now - full_since < _FULL:
            return self
        return self._wider(2 * self.value)._replace(wanted_since=now)

    def delayed(self, began_at: float, now: float) -> OpeningBound:
        """Learn of a connect that began then, and takes `REPEATED_SYN` or longer."""
        if began_at < self.narrowed_at:
            return self
        return self._replace(value=max(LEAST, self.value // 2), narrowed_at=now)

    def _is_wanted(self, now: float) -> bool:
        return now - self.refused_at <= _WANTED

    def _wider(self, value: int) -> OpeningBound:
        return self._replace(value=min(value, MOST))
