"""Declares the port to messages that a process has in hand, of stores without triggers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from shared.engine.ports.queues import Queue


class Lease(NamedTuple):
    """
    A message that this process has in hand: nobody else gets it while the process lives.

    *deaths* tells how many processes have died with it in hand.
    """

    message: int
    queue: Queue
    text: str
    due: datetime
    deaths: int = 0
    has_rows: bool = True  # rows that name it, beside its own


class Leases(Protocol):
    """
    Hands messages of the queues `deliveries` and `retries` to one process, on its event loop.

    What that process puts for now, and has room for, is in its hand when it is stored: *take* is
    called with it. Everything else is claimed.
    """

    def attach(
        self, take: Callable[[Lease], object], room: int, later: Callable[[datetime], object]
    ) -> None:
        """
        Hand over what is put from now on, while less than *room* is in hand of each queue.

        *later* is called with the time at which something that was not handed over is due.
        """

    def detach(self) -> None:
        """Hand over nothing more."""

    async def claim(self, until: datetime) -> Sequence[Lease]:
        """
        Take what is due *until* then, the earliest first, as far as there is room.

        First of all, what processes had in hand that have died. Messages with which three of them
        have died are left to `claim_alone`.
        """

    async def claim_alone(self, until: datetime) -> Lease | None:
        """Take one of these: nothing else may be in hand."""

    async def next_due(self) -> datetime | None:
        """Return when the next message is due that `claim` would take; ``None``: there is none."""

    async def end(self, lease: Lease) -> bool:
        """Delete a message; ``False``: it is not in hand."""

    async def fail(self, lease: Lease, wait: timedelta) -> None:
        """Give a message back that could not be handled; it comes again after *wait*, 20 times."""

    async def give_back(self, leases: Sequence[Lease]) -> None:
        """Give back what nothing was done with: it is due as before."""
