"""Lists of the management API, a page at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from shared.engine.manage.arm_json import answer
from shared.engine.manage.call import Call
from shared.engine.ports import Resource
from shared.errors import Fault, InvalidDocument
from shared.http import HttpAnswer
from shared.subscriptions.name_search import parse_filter

_THREE_DIGITS = re.compile(r"[0-9]{1,3}")
_DEFAULT_TOP, _MAX_TOP = 20, 100


def answer_page(
    call: Call,
    resources: Sequence[Resource],
    render: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> HttpAnswer:
    """
    Answer the part of the list that *call* asks for by ``$filter``, ``$top`` and ``$skipToken``.

    Raises:
        InvalidDocument: a parameter can't be read.
    """
    top = _top(call.query.get("$top"))
    is_wanted = parse_filter(call.query.get("$filter", ""))
    after = call.query.get("$skiptoken", "")
    by_name = {resource.document["name"].casefold(): resource for resource in resources}
    names = sorted(name for name in by_name if name > after and is_wanted(name))
    value = [render(by_name[name].document) for name in names[:top]]
    next_link = _link(call, names[top - 1]) if len(names) > top else None
    return answer(200, {"value": value, "nextLink": next_link})


def _link(call: Call, after: str) -> str:
    query = urlencode({**call.query, "$skiptoken": after}, safe="$", quote_via=quote)
    return f"{call.public_url}{call.path}?{query}"


def _top(text: str | None) -> int:
    if text is None:
        return _DEFAULT_TOP
    if not _THREE_DIGITS.fullmatch(text) or not 1 <= int(text) <= _MAX_TOP:
        message = f"$top must be a whole number between 1 and {_MAX_TOP}."
        fault = Fault(code=InvalidDocument.code, message=message, target="$top")
        raise InvalidDocument(message, faults=(fault,))
    return int(text)
