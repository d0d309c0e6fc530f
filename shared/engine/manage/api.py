"""Answers management requests: authorizes, finds the route, writes every error in ARM's form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from shared.arm.arm_json import error_answer
from shared.engine.manage.call import Call
from shared.engine.manage.routes import Route, find
from shared.engine.operations.operator_authorization import Operators
from shared.errors import AppError, InvalidDocument, MethodNotAllowed
from shared.events import literals
from shared.http import HttpAnswer, HttpRequest

CONSENT, ASSUMED = "pushgrid-consent", "assumed"  # a header of local use
READS_ONCE = "2025-02-15"  # the first api-version whose clients read an answer once
_STATES = {"PUT": "Creating", "PATCH": "Updating"}
_SETTLED = "Succeeded"
_API_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manage:
    """The management API: its routes, and who may call them."""

    routes: Sequence[Route]
    operators: Operators  # authorizes callers
    public_url: str | None  # ``None``: taken from each request
    # Callers can choose keys, and assume the consent of endpoints on loopback.
    has_local_shortcuts: bool = False
    new_id: Callable[[], str]

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Answer *request*; every error becomes an answer, too."""
        try:
            answer = self._answer(request)
        except AppError as error:
            answer = error_answer(error)
        always = {"x-ms-request-id": self.new_id(), "Cache-Control": "no-store"}
        return replace(answer, headers={**answer.headers, **always})

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        operator = self.operators.authorize(request.headers.get("authorization"))
        query = {name.lower(): value for name, value in request.query.items()}
        version = _api_version(query.get("api-version"))
        url = urlsplit(request.url)
        route, names = find(self.routes, url.path)
        method = request.method.upper()
        handler = route.handlers.get(method)
        if handler is None:
            refused = error_answer(MethodNotAllowed())
            allow = {"Allow": ", ".join(route.handlers)}
            return replace(refused, headers={**refused.headers, **allow})
        if operator.is_reader and not route.is_open_to_readers(method):
            raise operator.forbidden(f"{method} {url.path}")
        asked_url = f"{url.scheme}://{url.netloc}"
        call = Call(
            names=names,
            path=url.path,
            query=query,
            body=request.body,
            asked_url=asked_url,
            public_url=self.public_url or asked_url,
            assumes_consent=self.has_local_shortcuts and request.headers.get(CONSENT) == ASSUMED,
            by=operator.name,
            is_reader=operator.is_reader,
            may_choose_keys=self.has_local_shortcuts,
        )
        return with_pending_state(handler(call), method, version)


def _api_version(version: str | None) -> str:
    if not version:
        code = "MissingApiVersionParameter"
        message = "The api-version query parameter (?api-version=) is required for all requests."
    elif not _API_VERSION.fullmatch(version):
        code = "InvalidApiVersionParameter"
        message = "The api-version is invalid: it is a date, such as '2025-02-15'."
    else:
        return version
    raise InvalidDocument(message, detail_code=code)


def with_pending_state(answer: HttpAnswer, method: str, api_version: str) -> HttpAnswer:
    """
    Make a client of an earlier api-version read back what it has just written.

    Such a client parses the answer to a write twice, and the first pass removes the types of
    destinations, filters and mappings. Azure answers ``Creating`` or ``Updating``; so does this,
    and the client then gets the resource at once and finds it settled.

    Only Event Grid's own resources are read back so.

    Source: azure-mgmt-eventgrid 10.2.0 and 9.0.0 with msrest 0.7.1, as run.
    """
    if method not in _STATES or api_version >= READS_ONCE or not answer.body:
        return answer
    document = json.loads(answer.body)
    properties = document.get("properties", {})
    is_ours = str(document.get("type")).startswith("Microsoft.EventGrid/")
    if not is_ours or properties.get("provisioningState") != _SETTLED:
        return answer
    properties["provisioningState"] = _STATES[method]
    return replace(answer, body=literals.dumps(document).encode())
