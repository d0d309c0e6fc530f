"""Declares the port that settles a message: what follows its parts, their ends, and its own."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.messages.message import MessagePart
from shared.delivery.policy import DeliveryTerms, EndReason, EndState
from shared.engine.ports.records import Metrics
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

REPEATED_FOR = timedelta(minutes=2)  # a failing put, unless its caller can't wait so long


class Ended(NamedTuple):
    """The end of a delivery, and its grounds."""

    key: SubscriptionKey
    delivery: Delivery
    reason: EndReason
    state: EndState  # dead-lettered, dropped or recorded
    # In force when it ended; ``None``: it had none, or ended as a dead letter or a record.
    terms: DeliveryTerms | None = None


class FollowUp(NamedTuple):
    """Deliveries of a part that come again when due, or have ended and wait for their blob."""

    part: MessagePart
    is_held: bool = False  # by a hold or a pause: there may be many
    blob_due_at: datetime | None = None  # of those that have ended: when it may be written


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What became of deliveries of one part."""

    part: MessagePart  # as it was received
    follow_ups: Sequence[FollowUp] = ()
    ends: Sequence[Ended] = ()
    # By whose terms the ends were judged, and which was re-read with the same terms (a pause may
    # differ); only with these do they count. ``None``: there was none.
    subscription: EventSubscription | None = None
    is_whole: bool = True  # nothing of the part is open any more
    attempts: Sequence[AttemptRecord] = ()  # that are to be recorded
    delivered: Sequence[Delivery] = ()  # of a part of which others are open


class Answer(Enum):
    """What comes of a settlement."""

    SETTLED = auto()
    SETTLED_ALREADY = auto()  # by an earlier call of whose outcome nothing was known
    NOT_OURS = auto()  # the message is another process's by now: nothing was stored
    CHANGED = auto()  # what it ends by is not as it was re-read: nothing of the part was stored


def judged_again(settlement: Settlement, now: datetime) -> Settlement:
    """
    Return what is settled after `Answer.CHANGED`: what was to end comes back, to be judged anew.

    Its attempts were made, and are recorded as such.
    """
    ended = [each.delivery for each in settlement.ends]
    again = [each for each in settlement.follow_ups if each.blob_due_at is None]
    part = replace(settlement.part, deliveries=tuple(ended), due=now, rounds=0)
    attempts = [
        each if each.next_at or each.is_delivered else each.unconfirmed(now)
        for each in settlement.attempts
        if each.outcome
    ]
    return replace(settlement, ends=(), follow_ups=[*again, FollowUp(part)], attempts=attempts)


class Settled(NamedTuple):
    """The answer for one part, and what of it was delivered meanwhile, and left out."""

    answer: Answer = Answer.SETTLED
    delivered: Collection[DeliveryKey] = ()


class Settling(Protocol):
    """Settles one message in hand, on the app's event loop."""

    @property
    def metrics(self) -> Metrics:
        """Counts deliveries and attempts: at once, or with what settles their part."""

    async def settle(self, parts: Sequence[Settlement], repeat_for: timedelta) -> Sequence[Settled]:
        """
        Store what follows for *parts*, and end the message with its last one.

        A store with transactions does that in one, with the attempts and counts. Others store what
        follows; whoever gave the message deletes it after that, and nobody waits for the attempts.
        What is dropped is counted. What fails is repeated for *repeat_for*.

        Raises:
            StorageUnavailable: some may be stored; the message must not be deleted.
        """

    def comes_again(self, keys: Iterable[SubscriptionKey]) -> None:
        """Note that parts come again, whatever is taken back."""

    def take_back(
        self, key: SubscriptionKey, deliveries: Iterable[Delivery]
    ) -> Coroutine[Any, Any, bool]:
        """
        Leave deliveries that succeeded late out of what is settled from now on.

        Returns what removes them from what follows already, and tells whether all could be.

        Source: contract §3.5, late response rule ("best effort").
        """
