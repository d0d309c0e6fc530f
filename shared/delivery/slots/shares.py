"""Divides threads and messages in flight between quick and slow subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Speed(Enum):
    """How fast a subscription's latest pushes were."""

    NEW = auto()  # unknown: no push has ended yet
    QUICK = auto()
    SLOW = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """
    A limited resource that all subscriptions share: threads, or the host's messages in flight.

    Subscriptions that are not known to be quick share one half; *reserved* of it are kept for
    those that hold none. A new one may take its first also from the next quarter: its first push
    shows within a second how fast it is, and must not wait behind slow ones. Only quick ones get
    the rest.
    """

    total: int
    reserved: int = 0

    @property
    def half(self) -> int:
        """The most that slow subscriptions hold together."""
        return self.total // 2

    def has_room(self, speed: Speed, own: int, taken: int) -> bool:
        """
        Tell whether a subscription that holds *own* of the *taken* ones may have one more.

        *taken* counts those of all subscriptions; for one that is not quick, those of the ones
        that are not quick. No subscription holds more than are free: one alone gets half, two get
        two thirds together, and however many hang at once, some stay free.
        """
        return own < self._open_to(speed, own) - taken

    def _open_to(self, speed: Speed, own: int) -> int:
        if speed is Speed.QUICK:
            return self.total
        if speed is Speed.NEW and not own:
            return self.total * 3 // 4
        return self.half - self.reserved if own else self.half
