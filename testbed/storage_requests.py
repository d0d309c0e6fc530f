"""Names the operation of a storage request by its verb and address."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote, urlsplit

_DAY = re.compile(r"[0-9]{8}$")  # ends the name of a table of attempts

_MESSAGES = {"POST": "put", "GET": "get", "DELETE": "clear"}
_MESSAGE = {"PUT": "update", "DELETE": "delete"}
_QUEUE = {"PUT": "create", "GET": "metadata", "HEAD": "metadata", "DELETE": "remove"}
_CONTAINER = {"PUT": "create", "GET": "list", "HEAD": "properties", "DELETE": "remove"}
_BLOB = {"PUT": "write", "GET": "read", "HEAD": "properties", "DELETE": "delete"}
_TABLE = {
    "POST": "insert",
    "GET": "query",
    "PUT": "write",
    "PATCH": "write",
    "MERGE": "write",
    "DELETE": "delete",
}


def kind_of(service: str, verb: str, target: str) -> str:
    """
    Name a request by service, operation and resource, such as ``queue put deliveries``.

    *service* is ``blob``, ``queue`` or ``table``. *target* is the path, which begins with the
    account, and the query. A table's day is left out; ``table batch`` names no table.
    """
    parts = urlsplit(target)
    segments = [unquote(each) for each in parts.path.split("/")[2:] if each]
    query = {name.lower(): values[0].lower() for name, values in parse_qs(parts.query).items()}
    resource = segments[0] if segments else "account"
    operation, resource = _OPERATIONS[service](verb, segments, query, resource)
    return " ".join(filter(None, (service, operation, resource)))


def _queue(verb: str, segments: list[str], query: dict[str, str], resource: str) -> tuple[str, str]:
    if len(segments) > 2:  # noqa: PLR2004 - queue/messages/id
        return _MESSAGE.get(verb, verb), resource
    if len(segments) > 1:
        return ("peek" if query.get("peekonly") == "true" else _MESSAGES.get(verb, verb)), resource
    return ("list" if query.get("comp") == "list" else _QUEUE.get(verb, verb)), resource


def _blob(verb: str, segments: list[str], query: dict[str, str], resource: str) -> tuple[str, str]:
    comp = query.get("comp")
    if comp in {"lease", "batch", "metadata", "list"}:
        return comp, resource
    return (_BLOB if len(segments) > 1 else _CONTAINER).get(verb, verb), resource


def _table(verb: str, _: list[str], __: dict[str, str], resource: str) -> tuple[str, str]:
    if resource == "$batch":
        return "batch", ""
    if resource.startswith("Tables"):
        return ("list" if verb == "GET" else _QUEUE.get(verb, "create")), "Tables"
    return _TABLE.get(verb, verb), _DAY.sub("", resource.partition("(")[0])


_OPERATIONS = {"queue": _queue, "blob": _blob, "table": _table}
