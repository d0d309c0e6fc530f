"""Defines where the dead letters of a message are written."""

from __future__ import annotations

from typing import NamedTuple

from shared.delivery.messages.message import DeadLetterNote, DeliveryMessage
from shared.subscriptions.subscription import DeadLetterDestination, SubscriptionKey


class BlobTarget(NamedTuple):
    """The destination and subscription of a blob: a subscription's dead letters share one."""

    destination: DeadLetterDestination
    subscription: SubscriptionKey

    @classmethod
    def of(cls, message: DeliveryMessage) -> BlobTarget:
        """Return the target of a dead-letter message."""
        return cls(note_of(message).destination, message.key)

    @property
    def folded(self) -> BlobTarget:
        """The target with case-folded names: names are compared without case."""
        return BlobTarget(self.destination, self.subscription.folded)

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields of a log line about it."""
        return self.subscription._asdict() | self.destination_fields

    @property
    def destination_fields(self) -> dict[str, str]:
        """The fields of the destination; the app's own account is not named."""
        container, account = self.destination.container, self.destination.account
        return {"container": container} | ({"account": account} if account else {})


def note_of(message: DeliveryMessage) -> DeadLetterNote:
    """Return what a dead-letter message says about its end."""
    note = message.dead_letter
    if note is None:  # pragma: no cover - the intake lets no other message through
        raise ValueError("a delivery among the dead letters")
    return note
