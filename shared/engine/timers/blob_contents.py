"""Defines what a blob of dead letters is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from shared.deadletter.blob_summary import BlobSummary
from shared.deadletter.record import namespace_reason
from shared.delivery.messages.message import DeadLetterNote, MessagePart
from shared.events.topic import TopicName
from shared.subscriptions.subscription import DeadLetterDestination, SubscriptionKey


class BlobTarget(NamedTuple):
    """The destination and subscription of a blob: a subscription's dead letters share one."""

    destination: DeadLetterDestination
    subscription: SubscriptionKey

    @classmethod
    def of(cls, message: MessagePart) -> BlobTarget:
        return cls(note_of(message).destination, message.key)

    @property
    def folded(self) -> BlobTarget:
        """The target with case-folded names: names are compared without case."""
        return BlobTarget(self.destination, self.subscription.folded)

    @property
    def log_fields(self) -> dict[str, str]:
        return self.subscription._asdict() | self.destination_fields

    @property
    def destination_fields(self) -> dict[str, str]:
        """The fields of the destination; the app's own account is not named."""
        container, account = self.destination.container, self.destination.account
        return {"container": container} | ({"account": account} if account else {})


def note_of(message: MessagePart) -> DeadLetterNote:
    """Return what a dead-letter message says about its end."""
    note = message.dead_letter
    if note is None:  # pragma: no cover - the intake lets no other message through
        raise ValueError("a delivery among the dead letters")
    return note


class LetterText(NamedTuple):
    """A dead letter; its event's type and subject, and trace; its last attempt's cause."""

    text: str
    note: DeadLetterNote
    about: str
    trace_id: str | None
    cause: str | None


class ReadyMessage(NamedTuple):
    """A message with its dead letters, and how many of its events have lost their payload."""

    number: int
    letters: list[LetterText]
    missing: int


def summary_of(target: BlobTarget, letters: Sequence[LetterText]) -> BlobSummary:
    """Summarize a blob; it names no topic if the topic was recreated elsewhere meanwhile."""
    topic_ids = {each.note.topic_id for each in letters}
    is_of_namespace = TopicName.parse(target.subscription.topic)
    reasons = Counter(
        namespace_reason(each.note.reason) if is_of_namespace else str(each.note.reason)
        for each in letters
    )
    topic_id = topic_ids.pop() if len(topic_ids) == 1 else ""
    return BlobSummary(topic_id, reasons, letters[0].about)
