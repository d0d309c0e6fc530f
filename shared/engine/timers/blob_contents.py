"""Divides the dead letters of one subscription into blobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from shared.deadletter.blob_summary import BlobSummary
from shared.deadletter.record import batches, namespace_reason
from shared.delivery.messages.message import DeadLetterNote, MessagePart
from shared.delivery.policy import EndReason
from shared.engine.timers.receiving import LetterText, ReadMessage
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


def summary_of(
    target: BlobTarget, batch: list[ReadMessage], reasons: Mapping[EndReason, int]
) -> BlobSummary:
    """Summarize a blob; it names no topic if the topic was recreated elsewhere meanwhile."""
    topic_ids = {note_of(ready.message).topic_id for ready in batch}
    is_of_namespace = TopicName.parse(target.subscription.topic)
    named: Counter[str] = Counter()
    for reason, times in reasons.items():
        named[namespace_reason(reason) if is_of_namespace else reason] += times
    return BlobSummary(topic_ids.pop() if len(topic_ids) == 1 else "", named)


def parts_of(batch: list[ReadMessage]) -> list[list[tuple[LetterText, EndReason]]]:
    """Divide the records of a batch, each with its reason, into blobs."""
    records = (
        ((each, note_of(ready.message).reason), 1, len(each.text))
        for ready in batch
        for each in ready.records
    )
    return [*batches(records)]


def path_of_several(batch: list[ReadMessage]) -> str:
    """
    Return the path that an earlier run stored with a message which fills several blobs.

    Such a message is a batch of its own, so no other has that path, and its blobs are written
    again under the same names.
    """
    return batch[0].message.blob if len(parts_of(batch)) > 1 else ""
