"""Declares the port to messages that a process has in hand, of stores without triggers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from shared.engine.ports.queues import Queue
from shared.subscriptions.subscription import SubscriptionKey

#: The queues whose messages are delivered; the app's timers read all others.
LEASED = (Queue.DELIVERIES, Queue.RETRIES)


class Lease(NamedTuple):
    """A message in hand: no other process gets it until it is ended or given back."""

    queue: Queue
    body: bytes
    receipt: object  # the store's own


#: Records a message that is handed over no more, by its queue and text, with the reason.
GiveUp = Callable[[Queue, str, str], object]
#: Tells on the event loop whether this process may push events of a subscription: else others
#: use the whole of one of its limits.
HasShare = Callable[[SubscriptionKey], bool]


class Leases(Protocol):
    """
    Hands messages of the queues in `LEASED` to one process, on its event loop.

    What that process puts for now is in its hand when it is stored, as far as there is room, and it
    has a share in the limits. *lost* is called on the event loop when others may have all that was
    handed over so far.
    """

    lost: Callable[[], object]

    async def claim(self, queue: Queue, most: int) -> Sequence[Lease]:
        """
        Wait until messages of *queue* are due, and return *most* at most, in hand.

        A message that three processes have died with is a suspect: nothing else is handed over
        until it is ended, or this process has survived it for seconds. At first it runs with other
        suspects; after another death it runs alone, and after six it is recorded in ``poison``.

        One call a queue is under way. A call that is cancelled has taken nothing in hand.

        Raises:
            StorageUnavailable: nothing was taken; the next call may succeed.
        """

    async def end(self, lease: Lease) -> None:
        """
        Delete a message, since what follows its deliveries is stored.

        Raises:
            StorageUnavailable: it may come again.
        """

    async def give_back(self, lease: Lease) -> None:
        """
        Have a message that could not be handled come again; after 20 times it is recorded.

        Raises:
            StorageUnavailable: it comes again, at the latest when this process has ended.
        """

    async def hand_back(self) -> None:
        """
        Hand over nothing more, and let others have what is not handed over yet, in seconds.

        Raises:
            StorageUnavailable: `close` does it.
        """

    async def close(self) -> None:
        """
        Hand over nothing more, and let the next process have what is in hand.

        Raises:
            StorageUnavailable: it does so all the same, and takes this process for dead.
        """
