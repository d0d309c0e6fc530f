"""
Declares what the server needs of a home: a store that keeps what it has acknowledged.

A home has all ports to storage (`Store`), and leases the messages of the queues that are delivered
from (`Leases`). Who else may take them, and what one transaction holds, is its own affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from shared.app import BackgroundWork
from shared.engine.ports import Metrics, Store, Threads
from shared.engine.ports.leases import GiveUp, HasShare, Lease, Leases
from shared.engine.ports.settling import Settling
from shared.errors import InvalidSettings, StorageUnavailable
from shared.settings import Settings
from shared.subscriptions.subscription import SubscriptionKey
from shared.watched_clock import WatchedClock


class Home(Protocol):
    """What a server is served from; it is called on the event loop where nothing else is said."""

    @property
    def store(self) -> Store:
        """All ports to what is stored; used after `open` has returned."""

    @property
    def leases(self) -> Leases:
        """What hands over messages; used after `open` has returned."""

    def settling(self, lease: Lease, metrics: Metrics) -> Settling | None:
        """Return what settles a message in hand; ``None``: it is settled by puts, and ended."""

    @property
    def is_elected(self) -> bool:
        """Whether this process runs the timers: of all on one home, one does."""

    @property
    def has_lease(self) -> bool:
        """Whether what is in hand is nobody else's; else no push may begin."""

    @property
    def background(self) -> Sequence[BackgroundWork]:
        """What the home does by itself in the elected process."""

    async def open(self, give_up: GiveUp, has_share: HasShare) -> None:
        """
        Take the home, and bring it into the form of this version.

        *give_up* records what can't be handled; a home that puts it on a queue does not use it. By
        *has_share* a home of several processes leaves to others what they alone may push.

        Raises:
            InvalidSettings: another server has it, or it can't be used; the message says what to
                do.
        """

    def refusal_of(self, error: StorageUnavailable) -> InvalidSettings:
        """Say of a start that ends by *error* why, and what to do."""

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever stored in it before `open`; used after that has returned."""

    def has_waiting(self, key: SubscriptionKey) -> bool:
        """
        Tell exactly whether events wait for a subscription, given up ones included; on a thread.

        Raises:
            StorageUnavailable: nobody knows.
        """

    async def broken(self) -> str:
        """Wait until the home can't go on in this process, whatever is tried; return why."""

    async def close(self) -> None:
        """Let go of the home: what is in hand is handed over again, to the next process."""


#: Makes the home of a process with these settings; nothing is opened yet.
HomeFactory = Callable[[Settings, WatchedClock, Threads], Home]
#: Makes a home in a folder.
FolderHomeFactory = Callable[[Path, Settings, WatchedClock, Threads], Home]
