"""
Tells which blobs a request to the blob service creates or deletes.

Source: "Azure Blob Storage as an Event Grid source" (2025-10), "Blob Batch" (2024-11-04).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from email.parser import BytesParser
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

DELETE = "DeleteBlob"
_STATUS = re.compile(r"HTTP/1\.1 (\d{3})\b")
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_BLOB = 4  # parts of a path: nothing, account, container, blob


class BlobChange(NamedTuple):
    """
    What a request does to a blob if it succeeds.

    *path* is as the client sent it. *number* is that of the request in a batch; empty: in none.
    """

    api: str
    container: str
    blob: str
    path: str
    number: str = ""


class BatchItemAnswer(NamedTuple):
    """The answer to one request of a batch."""

    status: int
    request_id: str


def change_of(
    method: str, target: str, headers: Mapping[str, str], number: str = ""
) -> BlobChange | None:
    """Return what a request for *target*, path and query, changes; header names in lower case."""
    parts = urlsplit(target)
    path = unquote(parts.path).split("/", _BLOB - 1)
    api = _api(method, dict(parse_qsl(parts.query, keep_blank_values=True)), headers)
    if api is None or len(path) < _BLOB or not path[-1]:
        return None
    # Storage takes a backslash in a name for a slash.
    return BlobChange(api, path[2], path[3].replace("\\", "/"), parts.path, number)


def _api(method: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str | None:
    match method, query.get("comp") or None:
        case "PUT", "blocklist":
            return "PutBlockList"
        case "PUT", None if "x-ms-blob-type" in headers:
            return "PutBlob"
        case "PUT", None if "x-ms-copy-source" in headers:
            return "CopyBlob"
        case "DELETE", None:
            # Without its snapshots and versions, the blob stays.
            is_kept = query.keys() & {"snapshot", "versionid"}
            return None if is_kept or "x-ms-delete-snapshots" in _only(headers) else DELETE
        case _:
            return None


def _only(headers: Mapping[str, str]) -> set[str]:
    return {name for name, value in headers.items() if value.lower() == "only"}


def is_batch(method: str, target: str) -> bool:
    """Tell whether a request has others in its body."""
    return method == "POST" and dict(parse_qsl(urlsplit(target).query)).get("comp") == "batch"


def changes_in(batch: bytes, content_type: str) -> Sequence[BlobChange]:
    """
    Return what the requests in the body of a *batch* change.

    Raises:
        ValueError: a request has no number of its own, by which its answer could be found.
    """
    found = dict[str, BlobChange | None]()
    for number, line, headers in _parts(batch, content_type):
        method, _, rest = line.partition(" ")
        if not rest:
            continue
        if number in found or not _NUMBER.fullmatch(number):
            raise ValueError("each request of a batch needs a number of its own as its Content-ID")
        found[number] = change_of(method, rest.rpartition(" ")[0], headers, number)
    return [each for each in found.values() if each]


def outcomes_in(batch: bytes, content_type: str) -> Mapping[str, BatchItemAnswer]:
    """Return the answers in the answer to a *batch*, by the number of their request."""
    return {
        number: BatchItemAnswer(int(status[1]), headers.get("x-ms-request-id", ""))
        for number, line, headers in _parts(batch, content_type)
        if (status := _STATUS.match(line))
    }


def _parts(body: bytes, content_type: str) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yield number, first line and headers of each request or answer; nothing if malformed."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
    document = BytesParser().parsebytes(head + body)
    for part in document.get_payload() if document.is_multipart() else ():
        if isinstance(part, Message):
            content = part.get_payload(decode=True)
            first, _, rest = (content if isinstance(content, bytes) else b"").partition(b"\n")
            headers = BytesParser().parsebytes(rest, headersonly=True)
            named = {name.lower(): value for name, value in headers.items()}
            yield part.get("Content-ID", ""), first.decode("latin-1").strip(), named
