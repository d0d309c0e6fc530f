"""Decides which dead letters of a blob a replay leaves out."""

from __future__ import annotations

from shared.deadletter.provenance import is_of, topic_id_of, topic_named
from shared.deadletter.reader import DeadLetter
from shared.engine.ports import StoredBlob, TopicReader
from shared.engine.replaying.job import ReplayJob, ReplaySource, Skipped


def left_out(
    topics: TopicReader, job: ReplayJob, source: ReplaySource, blob: StoredBlob, letter: DeadLetter
) -> Skipped | None:
    """Return why *job* leaves out a dead letter of *blob*; ``None`` if it is sent."""
    if job.selection.event not in {None, letter.event.get("id")}:
        return Skipped.EVENT
    if not job.selection.has_reason(letter.reason):
        return Skipped.REASON
    if not source.subscription:
        return Skipped.TOPIC if _names_another_topic(topics, source, blob, letter) else None
    topic = topics.topic(source.topic)
    is_of_source = is_of(topic, letter, blob.summary) if topic else None
    if is_of_source is None and not job.unproven:
        return Skipped.UNPROVEN
    return Skipped.TOPIC if is_of_source is False else None


def _names_another_topic(
    topics: TopicReader, source: ReplaySource, blob: StoredBlob, letter: DeadLetter
) -> bool:
    """Tell whether an event in a given container names another topic of ours."""
    named = topic_id_of(letter, blob.summary) or ""
    name = topic_named(named)
    if not source.topic or not name or name.casefold() == source.topic.casefold():
        return False
    topic = topics.topic(name)
    return topic is not None and topic.arm_id.casefold() == named.casefold()
