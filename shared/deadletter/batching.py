"""Groups dead letters into blobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

MAX_BLOB_RECORDS = 1000
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
