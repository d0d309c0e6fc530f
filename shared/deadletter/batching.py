"""Groups dead letters into blobs, and names the blobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from shared.events.topic import TopicName

MAX_BLOB_RECORDS = 1000
MAX_PATH = 1024  # characters of a blob's path; storage has no longer ones
MAX_BLOB_BYTES = 8 * 1024 * 1024  # a single larger record still gets a blob of its own

T = TypeVar("T")


def batches(sized: Iterable[tuple[T, int, int]]) -> Iterator[list[T]]:
    """
    Divide items, in order, into batches within the limits of a blob.

    Each item comes with its numbers of records and bytes; one that exceeds a limit goes alone.
    """
    batch: list[T] = []
    records = size = 0
    for item, its_records, its_size in sized:
        if batch and (records + its_records > MAX_BLOB_RECORDS or size + its_size > MAX_BLOB_BYTES):
            yield batch
            batch, records, size = [], 0, 0
        batch.append(item)
        records += its_records
        size += its_size
    if batch:
        yield batch


def blob_body(records: Sequence[str]) -> bytes:
    """Return the blob's JSON: an array, one record a line."""
    return ("[" + ",\n".join(records) + "]").encode("ascii")


def dead_letter_path(topic: str, subscription: str, written_at: datetime, blob_id: str) -> str:
    """Return the path of a blob of dead letters."""
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
