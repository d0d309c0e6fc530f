"""Who may have how much of what all subscriptions of a process share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Standing(Enum):
    """What is known of a subscription's pushes of late."""

    NEW = auto()  # nothing: no push has ended yet
    QUICK = auto()
    SLOW = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """
    A number of things that are shared: threads, or the host's messages in flight.

    Whoever is not known to be quick gets them from one half; *kept* ones of it go only to those
    that have none. A new one gets its first also from the next quarter: a try shows within a
    second what it is, and must not wait for slow ones. What is left only quick ones get.
    """

    total: int
    kept: int = 0

    @property
    def half(self) -> int:
        """How many the slow ones together have at most."""
        return self.total // 2

    def has_room(self, standing: Standing, own: int, taken: int) -> bool:
        """
        Tell whether there is one more for a subscription that has *own* of the *taken* ones.

        *taken* are those of all subscriptions, for one that is not quick those of the not quick
        ones. Nobody gets more than are left: one alone has half, two have two thirds, and however
        many suddenly hang, something is left.
        """
        return own < self._open_to(standing, own) - taken

    def _open_to(self, standing: Standing, own: int) -> int:
        if standing is Standing.QUICK:
            return self.total
        if standing is Standing.NEW and not own:
            return self.total * 3 // 4
        return self.half - self.kept if own else self.half
