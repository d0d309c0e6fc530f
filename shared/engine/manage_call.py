"""What every handler of the management API is given: the ports, and the request taken apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from shared.clock import Clock
from shared.engine.manage_filter import parse_filter
from shared.engine.ports import Pusher, Resource, ResourceStore
from shared.errors import Fault, InvalidDocument, NotFound
from shared.subscriptions.deployment import Deployment

WRITE_TRIES = 3  # how often a lost race for a row is run again
_THREE_DIGITS = re.compile(r"[0-9]{1,3}")
_DEFAULT_TOP, _MOST_TOP = 20, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagePorts:
    """
    What managing needs of the world.

    *admin_key* ``None`` closes the API. *public_url* ``None`` means: from each request. *new_key*
    makes an access key, *new_id* an id nobody has; *sleep* takes seconds.
    """

    resources: ResourceStore
    pusher: Pusher
    clock: Clock
    deployment: Deployment
    admin_key: str | None = field(repr=False)
    public_url: str | None
    new_key: Callable[[], str]
    new_id: Callable[[], str]
    sleep: Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """
    One request.

    *names* are the parts of the path under the route's names, decoded. *path* is the path as the
    client sent it. *query* has lower-case names.
    """

    names: Mapping[str, str]
    path: str
    query: Mapping[str, str]
    body: bytes
    public_url: str


class Page:
    """The part of a list that one answer holds, by ``$filter``, ``$top`` and ``$skipToken``."""

    def __init__(self, call: Call, resources: Sequence[Resource]) -> None:
        """
        Take the page that *call* asks for.

        Raises:
            InvalidDocument: a parameter can't be read.
        """
        top = _top(call.query.get("$top"))
        is_wanted = parse_filter(call.query.get("$filter", ""))
        after = call.query.get("$skiptoken", "")
        by_name = {resource.document["name"].casefold(): resource for resource in resources}
        names = sorted(name for name in by_name if name > after and is_wanted(name))
        self.resources = [by_name[name] for name in names[:top]]
        self.next_link = None
        if len(names) > top:
            query = {name: value for name, value in call.query.items() if name != "$skiptoken"}
            text = urlencode(query | {"$skiptoken": names[top - 1]}, safe="$", quote_via=quote)
            self.next_link = f"{call.public_url}{call.path}?{text}"


def not_found(kind: str, name: str, group: str) -> NotFound:
    """Build ARM's error for a resource that is not there."""
    return NotFound(f"The Resource '{kind}/{name}' under resource group '{group}' was not found.")


def _top(text: str | None) -> int:
    if text is None:
        return _DEFAULT_TOP
    if not _THREE_DIGITS.fullmatch(text) or not 1 <= int(text) <= _MOST_TOP:
        message = f"$top must be a whole number between 1 and {_MOST_TOP}."
        fault = Fault(code=InvalidDocument.code, message=message, target="$top")
        raise InvalidDocument(message, faults=(fault,))
    return int(text)
