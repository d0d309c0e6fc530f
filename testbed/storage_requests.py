"""What a request to storage does, as its verb and address say."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote, urlsplit

_DAY = re.compile(r"[0-9]{8}$")  # tables of attempts are called by their day

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
    Name a request by service, operation and what it is about, such as ``queue put deliveries``.

    *service* is ``blob``, ``queue`` or ``table``, *target* path and query as sent, the account
    first. A table's day is left out; ``table batch`` does not say whose rows it writes.
    """
    parts = urlsplit(target)
    segments = [unquote(each) for each in parts.path.split("/")[2:] if each]
    query = {name.lower(): values[0].lower() for name, values in parse_qs(parts.query).items()}
    about = segments[0] if segments else "account"
    operation, about = _OPERATIONS[service](verb, segments, query, about)
    return " ".join(filter(None, (service, operation, about)))


def _queue(verb: str, segments: list[str], query: dict[str, str], about: str) -> tuple[str, str]:
    if len(segments) > 2:  # noqa: PLR2004 - queue/messages/id
        return _MESSAGE.get(verb, verb), about
    if len(segments) > 1:
        return ("peek" if query.get("peekonly") == "true" else _MESSAGES.get(verb, verb)), about
    return ("list" if query.get("comp") == "list" else _QUEUE.get(verb, verb)), about


def _blob(verb: str, segments: list[str], query: dict[str, str], about: str) -> tuple[str, str]:
    comp = query.get("comp")
    if comp in {"lease", "batch", "metadata", "list"}:
        return comp, about
    return (_BLOB if len(segments) > 1 else _CONTAINER).get(verb, verb), about


def _table(verb: str, _: list[str], __: dict[str, str], about: str) -> tuple[str, str]:
    if about == "$batch":
        return "batch", ""
    if about.startswith("Tables"):
        return ("list" if verb == "GET" else _QUEUE.get(verb, "create")), "Tables"
    return _TABLE.get(verb, verb), _DAY.sub("", about.partition("(")[0])


_OPERATIONS = {"queue": _queue, "blob": _blob, "table": _table}
