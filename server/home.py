"""
Declares what the server needs of a home: a store that keeps what it has acknowledged.

A home has all ports to storage (`Store`) and hands over the messages of the queues that are
delivered from. Where it leaves them, who else may take them and when they are due is its own
affair; so is what one transaction holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from shared.clock import Clock
from shared.engine.ports import Queue, Store, Threads
from shared.settings import Settings
from shared.subscriptions.subscription import SubscriptionKey

#: The queues whose messages are delivered; the app's timers read all others.
DELIVERED = (Queue.DELIVERIES, Queue.RETRIES)


class Message(NamedTuple):
    """A message in hand: no other process gets it until it is ended or given back."""

    queue: Queue
    body: bytes
    receipt: object  # the home's own


class Home(Protocol):
    """What a server is served from; it is called on the event loop where nothing else is said."""

    @property
    def store(self) -> Store:
        """All ports to what is stored; used after `open` has returned."""

    @property
    def is_elected(self) -> bool:
        """Whether this process runs the timers: of all on one home, one does."""

    @property
    def fault(self) -> str | None:
        """Why nothing can be stored now, for readiness and people; ``None``: it can."""

    async def open(self) -> None:
        """
        Take the home, and bring it into the form of this version.

        Raises:
            InvalidSettings: another server has it, or it can't be used; the message says what to
                do.
        """

    async def claim(self, queue: Queue, most: int) -> Sequence[Message]:
        """
        Wait until messages of *queue* are due, and return *most* at most, in hand.

        One call a queue is under way. A call that is cancelled has taken nothing in hand.

        Raises:
            StorageUnavailable: nothing was taken; the next call may succeed.
        """

    async def end(self, message: Message) -> None:
        """
        Delete a message, since what follows its deliveries is stored.

        Raises:
            StorageUnavailable: it may come again.
        """

    async def give_back(self, message: Message) -> None:
        """
        Have a message, which could not be handled, come again later; or make it poison.

        Raises:
            StorageUnavailable: it comes again, at the latest when this process has ended.
        """

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


#: Makes the home in a folder, of a process with these settings; nothing is opened yet.
HomeFactory = Callable[[Path, Settings, Clock, Threads], Home]
