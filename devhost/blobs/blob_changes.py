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
_WHOLE = {"x-ms-blob-type": "PutBlob", "x-ms-copy-source": "CopyBlob"}  # the first decides
_BLOB = 4  # parts of a path: nothing, account, container, blob


class BlobChange(NamedTuple):
    """What a request does to a blob if it succeeds."""

    api: str
    container: str
    blob: str
    path: str  # as the client sent it
    number: str = ""  # of the request in a batch; empty: in none


class BatchItemAnswer(NamedTuple):
    """The answer to one request of a batch."""

    status: int
    request_id: str


def change_of(
    method: str, target: str, headers: Mapping[str, str], number: str = ""
) -> BlobChange | None:
    """
    Return what a request for *target*, path and query, changes; header names in lower case.

    Raises:
        ValueError: Azurite would do something else than the request says.
    """
    if "x-http-method" in headers:
        raise ValueError("with --blob-events, X-HTTP-Method is refused")
    parts = urlsplit(target)
    path = unquote(parts.path).split("/", _BLOB - 1)
    if len(path) < _BLOB or not path[-1]:
        return None
    api = _api(method, _query(parts.query), headers)
    if api is None:
        return None
    # Storage takes a backslash in a name for a slash.
    return BlobChange(api, path[2], path[3].replace("\\", "/"), parts.path, number)


def _query(text: str) -> dict[str, str]:
    """Return the parameters as Azurite reads them: one that is given twice is none."""
    found = dict[str, str]()
    for name, value in parse_qsl(text, keep_blank_values=True):
        found[name] = "" if name in found else value
    return found


def _api(method: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str | None:
    match method, query.get("comp"):
        case "PUT", "blocklist":
            return "PutBlockList"
        case "PUT", "block" | "appendblock":
            return None
        case "PUT", comp if found := headers.keys() & _WHOLE.keys():
            if comp:  # Azurite takes most for a whole blob.
                raise ValueError(f"with --blob-events, comp={comp} and {min(found)} are refused")
            return _WHOLE[min(found)]
        case "DELETE", _:
            # Azurite has no versions. Without its snapshots, the blob stays.
            is_kept = (
                query.get("snapshot") or headers.get("x-ms-delete-snapshots", "").lower() == "only"
            )
            return None if is_kept else DELETE
        case _:
            return None


def is_batch(method: str, target: str) -> bool:
    """Tell whether a request has others in its body."""
    return method == "POST" and dict(parse_qsl(urlsplit(target).query)).get("comp") == "batch"


def changes_in(batch: bytes, content_type: str) -> Sequence[BlobChange]:
    """
    Return what the requests in the body of a *batch* change.

    Raises:
        ValueError: a request has no number of its own, by which its answer could be found, or
            Azurite would do something else than it says.
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
