"""Names the blobs of dead letters and of poison records."""

from __future__ import annotations

from datetime import UTC, datetime

from shared.events.topic import TopicName

MAX_PATH = 1024  # characters of a blob's path; storage has no longer ones


def dead_letter_path(topic: str, subscription: str, written_at: datetime, blob_id: str) -> str:
    return blob_path(dead_letter_folder(topic, subscription), written_at, blob_id)


def dead_letter_folder(topic: str, subscription: str) -> str:
    """
    Return the folder of a subscription's blobs; names are in capitals, except in a namespace.

    Subscriptions of one name that belong to different custom topics share it.

    Source: contract §4.1; "Dead lettering for event subscriptions to namespace topics" (2023-09-29)
    has an example.
    """
    name = TopicName.parse(topic)
    return "/".join([*name, subscription]) if name else subscription.upper()


def blob_path(folder: str, written_at: datetime, blob_id: str) -> str:
    """Return a blob's path by the hour in which it is written: UTC, not zero-padded."""
    at = written_at.astimezone(UTC)
    return f"{folder}/{at.year}/{at.month}/{at.day}/{at.hour}/{blob_id}.json"


def numbered_path(path: str, number: int) -> str:
    """Return the path of another blob, the *number*-th of those whose last one is *path*."""
    return f"{path.removesuffix('.json')}-{number}.json"
