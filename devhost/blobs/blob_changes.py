"""
Tells which blobs a request to the blob service creates or deletes.

Source: "Azure Blob Storage as an Event Grid source" (2025-10), "Blob Batch" (2024-11-04).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

DELETE = "DeleteBlob"
_REQUEST = re.compile(r"([A-Z]+) (/[!-~]*) [^ ]+\Z")
_STATUS = re.compile(r"HTTP/1\.1 (\d{3})\b")
_NOT_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})")  # with this, Azurite answers 500
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_WHOLE = {"x-ms-blob-type": "PutBlob", "x-ms-copy-source": "CopyBlob"}  # the first decides
_BLOB = 4  # parts of a path: nothing, account, container, blob
_MOST_REQUESTS = 256  # of a batch
_BOUNDARY = "boundary="


class RefusedRequest(ValueError):
    """A request that storage refuses, or that Azurite would take for another than it says."""

    def __init__(self, message: str, code: str = "InvalidInput", status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


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
        RefusedRequest: Azurite would do something else than the request says.
    """
    if "x-http-method" in headers:
        raise RefusedRequest("with --blob-events, X-HTTP-Method is refused")
    raw_path, _, query = target.partition("?")
    path = _decoded(raw_path).split("/", _BLOB - 1)
    if len(path) < _BLOB or not path[-1]:
        return None
    api = _api(method, _query(query), headers)
    if api is None:
        return None
    # Storage takes a backslash in a name for a slash.
    return BlobChange(api, path[2], path[3].replace("\\", "/"), raw_path, number)


def _decoded(path: str) -> str:
    try:
        if not _NOT_ENCODED.search(path):
            return unquote(path, errors="strict")
    except UnicodeDecodeError:
        pass
    raise RefusedRequest("The request URI is invalid.", "InvalidUri")


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
                raise RefusedRequest(
                    f"with --blob-events, comp={comp!r:.160} and {min(found)} are refused"
                )
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
    return method == "POST" and ("comp", "batch") in parse_qsl(target.partition("?")[2])


def changes_in(batch: bytes, content_type: str) -> Sequence[BlobChange]:
    """
    Return what the requests in the body of a *batch* change.

    Raises:
        RefusedRequest: it is malformed, has no or too many requests or one without a number of its
            own, by which its answer could be found, or Azurite would do something else than it
            says.
    """
    found = dict[str, BlobChange | None]()
    for number, line, headers in _parts(batch, content_type):
        request = _REQUEST.match(line)
        if not request:
            raise RefusedRequest("a request of the batch is malformed")
        if number in found or not _NUMBER.fullmatch(number):
            raise RefusedRequest(
                "each request of a batch needs a number of its own as its Content-ID"
            )
        found[number] = change_of(request[1], request[2], headers, number)
    if not found:
        raise RefusedRequest("the batch has no request")
    return [each for each in found.values() if each]


def outcomes_in(batch: bytes, content_type: str) -> Mapping[str, BatchItemAnswer]:
    """Return the answers in the answer to a *batch*, by the number of their request."""
    return {
        number: BatchItemAnswer(int(status[1]), headers.get("x-ms-request-id", ""))
        for number, line, headers in _parts(batch, content_type)
        if (status := _STATUS.match(line))
    }


def _parts(body: bytes, content_type: str) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """
    Yield number, first line and headers of each request or answer, read as Azurite does.

    Nothing is nested: a part in which others begin is malformed.

    Raises:
        RefusedRequest: it is malformed, or has too many parts.
    """
    boundary = _boundary(content_type)
    if not boundary:
        return
    try:
        text = body.decode().partition(f"--{boundary}--")[0]
    except UnicodeDecodeError as fault:
        raise RefusedRequest("the batch is not UTF-8") from fault
    parts = text.split(f"--{boundary}\r\n", _MOST_REQUESTS + 1)[1:]
    if len(parts) > _MOST_REQUESTS:
        raise RefusedRequest(
            "The batch operation exceeds maximum number of allowed subrequests.",
            "ExceedsMaxBatchRequestCount",
        )
    for part in parts:
        lines = iter(part.split("\r\n"))
        number = _headers(lines).get("content-id", "")
        yield number, next(lines, ""), _headers(lines)


def _boundary(content_type: str) -> str:
    """Return the boundary in a Content-Type; empty: there is not the one that Azurite wants."""
    parameters = [each.strip() for each in content_type.split(";")]
    found = [each for each in parameters if each.lower().startswith(_BOUNDARY)]
    return found[0][len(_BOUNDARY) :].strip() if len(found) == 1 else ""


def _headers(lines: Iterator[str]) -> dict[str, str]:
    """Read headers up to an empty line; names in lower case."""
    found = dict[str, str]()
    for line in lines:
        if not line:
            break
        name, *value = line.split(": ")
        if not value:
            raise RefusedRequest("a header in the batch is malformed")
        found[name.lower()] = value[0]
    return found
