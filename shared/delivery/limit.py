"""Limits how many requests to one endpoint are under way in a process."""

from __future__ import annotations

from typing import NamedTuple

FIRST = 16  # requests to an endpoint of which nothing is known
MOST = 256  # to any endpoint, unless a setting says otherwise


class Limit(NamedTuple):
    """
    The limit of one endpoint, a whole number of requests.

    It grows by one for each success, however slow, if at least half of it was in use when the
    request started or ended: so it doubles each round trip, to the last of a burst. A failure
    halves it, once a round trip: *halved_at* is when it last did, in seconds, and failures of
    requests that were sent before say nothing new.
    """

    value: int = FIRST
    most: int = MOST
    halved_at: float = float("-inf")

    @classmethod
    def up_to(cls, most: int) -> Limit:
        """Return the limit of an endpoint of which nothing is known."""
        return cls(min(FIRST, most), most)

    def is_half_used(self, under_way: int) -> bool:
        """Tell whether at least half of it is in use with so many requests under way."""
        return 2 * under_way >= self.value

    def after_success(self) -> Limit:
        """Return the limit after a success of a request for which half of it was in use."""
        return self if self.value >= self.most else self._replace(value=self.value + 1)

    def after_failure(self, sent_at: float, now: float) -> Limit:
        """Return the limit after the failure of a request."""
        if sent_at < self.halved_at:
            return self
        return self._replace(value=max(1, self.value // 2), halved_at=now)
