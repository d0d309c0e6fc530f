"""Tells which topic a dead letter is of: subscriptions of one name share a folder."""

from __future__ import annotations

from shared.deadletter.blob_summary import BlobSummary
from shared.deadletter.reader import DeadLetter, RecordForm
from shared.events.topic import InputSchema, SourceTopic, Topic, TopicName


def topic_id_of(letter: DeadLetter, summary: BlobSummary | None) -> str | None:
    """
    Return the ARM id of the topic that a blob names, or else its record; ``None``: neither does.

    A CloudEvent has an ARM id only if it was converted, but a publisher's *source* may equal one.
    """
    if summary and summary.topic_id:
        return summary.topic_id
    named = letter.event.get("topic" if letter.form is RecordForm.EVENT_GRID else "source")
    return named if isinstance(named, str) else None


def topic_named(arm_id: str) -> str:
    """Return the name on the data plane of a topic that is not one of a namespace."""
    name = arm_id.rpartition("/")[2]
    kinds = ("/microsoft.storage/storageaccounts/", "/pushgrid/deployments/")
    is_source = any(each in arm_id.casefold() for each in kinds)
    return SourceTopic(name).joined if is_source else name


def is_of(topic: Topic, letter: DeadLetter, summary: BlobSummary | None) -> bool | None:
    """
    Tell whether a dead letter in a folder of *topic* is of that topic; ``None``: nothing proves it.

    A namespace's folders have the name of the topic. CloudEvents of its own prove theirs only if
    the topic's input schema is another one: all of them were converted then.
    """
    if not (summary and summary.topic_id):
        if letter.form is RecordForm.NAMESPACE:
            return TopicName.parse(topic.name) is not None
        if (
            letter.form is RecordForm.CLOUD_EVENTS
            and topic.input_schema is InputSchema.CLOUD_EVENTS
        ):
            return None
    named = topic_id_of(letter, summary)
    return None if named is None else named.casefold() == topic.arm_id.casefold()
