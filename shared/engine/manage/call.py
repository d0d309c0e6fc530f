"""Defines a management request: its path, what its query asks for, and the pages of lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from shared.arm.arm_json import answer
from shared.arm.odata import parse_name_filter
from shared.engine.ports import Document, Resource
from shared.errors import InvalidDocument, NotFound
from shared.http import HttpAnswer

_FOUR_DIGITS = re.compile(r"[0-9]{1,4}")
_DEFAULT_TOP, _MAX_TOP = "20", 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request."""

    names: Mapping[str, str]  # decoded segments of the path by their names in the route
    path: str  # as the client sent it
    query: Mapping[str, str]  # names in lower case
    body: bytes
    asked_url: str  # the app's URL as this client addressed it
    public_url: str  # the one to publish
    by: str  # the operator, without any secret
    is_reader: bool = False  # may not see payloads
    assumes_consent: bool = False  # endpoints, on loopback, are not asked
    is_import: bool = False  # endpoints have consented elsewhere: none is asked
    may_choose_keys: bool = False

    def covers(self, arm_id: str) -> bool:
        """Tell whether a resource is in the subscription or resource group of the path."""
        scope = f"/subscriptions/{self.names['subscription']}/"
        if "group" in self.names:
            scope += f"resourceGroups/{self.names['group']}/"
        return arm_id.casefold().startswith(scope.casefold())


def not_found(call: Call, arm_id: str, hint: str = ".") -> NotFound:
    """Build ARM's error for a resource that is not there; *hint*: of ``did_you_mean``."""
    what, group = arm_id.partition("/providers/")[2], call.names["group"]
    return NotFound(f"The Resource '{what}' under resource group '{group}' was not found{hint}")


def names_of(rows: Iterable[Resource]) -> Iterator[str]:
    """Yield the names of stored resources, those of namespaces' topics with the namespace."""
    for row in rows:
        name, namespace = row.document.get("name", row.name), row.document.get("namespace")
        yield f"{namespace}.{name}" if namespace else str(name)


def answer_page(
    call: Call, resources: Sequence[Resource], render: Callable[[Document], Document]
) -> HttpAnswer:
    """Answer the page of *resources* that the query of *call* asks for."""
    top = read_top(call)
    is_wanted = parse_name_filter(call.query.get("$filter", ""))
    after = call.query.get("$skiptoken", "")
    by_key = {_key(resource.document): resource for resource in resources}
    keys = sorted(key for key in by_key if key > after and is_wanted(key.partition(" ")[0]))
    value = [render(by_key[key].document) for key in keys[:top]]
    link = next_link(call, keys[top - 1]) if len(keys) > top else None
    return answer(200, {"value": value, "nextLink": link})


def _key(document: Document) -> str:
    """Return the sort key of a list: the name, then the id, which is unique."""
    return f"{document['name']} {document['id']}".casefold()


def next_link(call: Call, after: str) -> str:
    """Return the link to the page that goes on after the key *after*."""
    query = urlencode({**call.query, "$skiptoken": after}, safe="$", quote_via=quote)
    return f"{call.public_url}{call.path}?{query}"


def read_top(call: Call, most: int = _MAX_TOP, default: str = _DEFAULT_TOP) -> int:
    """Return the number of members that ``$top`` asks for, of at most *most*."""
    text = call.query.get("$top", default)
    if not _FOUR_DIGITS.fullmatch(text) or not 1 <= int(text) <= most:
        message = f"$top must be a whole number between 1 and {most}."
        raise InvalidDocument(message, target="$top")
    return int(text)


def read_time(call: Call, name: str) -> datetime | None:
    """Return the time that the query gives as *name*, in UTC unless it says otherwise."""
    text = call.query.get(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidDocument(f"{name}: '{text}' is not a time of ISO 8601.") from None
