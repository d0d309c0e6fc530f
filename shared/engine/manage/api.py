"""Answers management requests: authorizes, finds the route, writes every error in ARM's form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from shared.arm.arm_json import error_answer
from shared.arm.not_included import RESOURCES
from shared.engine.manage.call import Call
from shared.engine.operations.operator_authorization import Operators
from shared.errors import AppError, InvalidDocument, MethodNotAllowed, NotFound
from shared.events import literals
from shared.http import HttpAnswer, HttpRequest

CONSENT, ASSUMED = "pushgrid-consent", "assumed"  # a header of local use
READS_ONCE = "2025-02-15"  # the first api-version whose clients read an answer once
_STATES = {"PUT": "Creating", "PATCH": "Updating"}
_SUCCEEDED = "Succeeded"
_API_VERSION = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?"
_NO_PARENT = re.compile(r"(/providers/Microsoft\.EventGrid)//", re.IGNORECASE)

Handler = Callable[[Call], HttpAnswer]  # each `AppError` that it raises becomes an answer


class Route(NamedTuple):
    """
    A path and the handler of each verb on it.

    Segments in braces match any segment and name it; a first ``{*scope}`` matches one or more.
    """

    segments: tuple[str, ...]
    handlers: Mapping[str, Handler]
    has_payloads: bool = False  # its answers have events as published, which readers don't see

    def is_open_to_readers(self, method: str) -> bool:
        """Tell whether a reader may send *method*: docs/security.md has the table."""
        return method == "GET" and not self.has_payloads


def to_route(path: str, *, has_payloads: bool = False, **handlers: Handler) -> Route:
    return Route(tuple(path.split("/")), handlers, has_payloads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manage:
    """The management API: its routes, and who may call them."""

    routes: Sequence[Route]
    operators: Operators  # authorizes callers
    public_url: str | None  # ``None``: taken from each request
    # Callers can choose keys, and assume the consent of endpoints on loopback.
    has_local_shortcuts: bool = False
    is_import: bool = False  # keys and consents are those of another deployment
    new_id: Callable[[], str]

    def run(self, request: HttpRequest, by: str = "") -> HttpAnswer:
        """
        Answer *request*; every error becomes an answer, too.

        *by* names who asks within this process; else the caller's credential does.
        """
        try:
            answer = self._answer(request, by)
        except AppError as error:
            answer = error_answer(error)
        always = {"x-ms-request-id": self.new_id(), "Cache-Control": "no-store"}
        return replace(answer, headers={**answer.headers, **always})

    def _answer(self, request: HttpRequest, by: str) -> HttpAnswer:
        operator = self.operators.authorize(request.headers.get("authorization"))
        version = _api_version(request.query.get("api-version"))
        url = urlsplit(request.url)
        route, names = _find(self.routes, url.path)
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
            query=request.query,
            body=request.body,
            asked_url=asked_url,
            public_url=self.public_url or asked_url,
            assumes_consent=self.is_import
            or (self.has_local_shortcuts and request.headers.get(CONSENT) == ASSUMED),
            is_import=self.is_import,
            by=by or operator.name,
            is_reader=operator.is_reader,
            may_choose_keys=self.is_import or self.has_local_shortcuts,
        )
        return with_pending_state(handler(call), method, version)


def _api_version(version: str | None) -> str:
    if not version:
        code = "MissingApiVersionParameter"
        message = "The api-version query parameter (?api-version=) is required for all requests."
    elif not re.fullmatch(_API_VERSION, version, re.ASCII):
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
    and the client then gets the resource at once and finds it ready.

    Only Event Grid's own resources are read back so.

    Source: azure-mgmt-eventgrid 10.2.0 and 9.0.0 with msrest 0.7.1, as run.
    """
    if method not in _STATES or api_version >= READS_ONCE or not answer.body:
        return answer
    document = json.loads(answer.body)
    properties = document.get("properties", {})
    is_ours = str(document.get("type")).startswith("Microsoft.EventGrid/")
    if not is_ours or properties.get("provisioningState") != _SUCCEEDED:
        return answer
    properties["provisioningState"] = _STATES[method]
    return replace(answer, body=literals.dumps(document).encode())


def _find(routes: Iterable[Route], path: str) -> tuple[Route, Mapping[str, str]]:
    """Return the first route that fits *path*, and the values of its named segments."""
    # `az resource` writes the path of a resource without a parent with an empty segment.
    path = _NO_PARENT.sub(r"\1/", path.strip("/"))
    # Split before decoding: an encoded slash belongs to its segment.
    segments = [unquote(segment) for segment in path.split("/")]
    for route in routes:
        names = _match(route.segments, segments)
        if names is not None:
            return route, names
    raise _unknown(segments)


def _match(wanted: tuple[str, ...], segments: list[str]) -> Mapping[str, str] | None:
    names = {}
    if wanted[0] == "{*scope}":
        scope, segments = segments[: 1 - len(wanted)], segments[1 - len(wanted) :]
        if not all(scope) or not scope:
            return None
        names, wanted = {"scope": "/".join(scope)}, wanted[1:]
    if len(wanted) != len(segments):
        return None
    for pattern, segment in zip(wanted, segments, strict=True):
        if pattern.startswith("{") and segment:
            names[pattern[1:-1]] = segment
        elif pattern.casefold() != segment.casefold():
            return None
    return names


def _unknown(segments: list[str]) -> NotFound:
    """Return the error about a path that no route has, with the feature that it belongs to."""
    lowered = [each.casefold() for each in segments]
    for provider in ("microsoft.eventgrid", "microsoft.insights"):
        if provider in lowered:
            below = lowered[len(lowered) - lowered[::-1].index(provider) :]
            for kind in below[::2]:
                if feature := RESOURCES.get(kind):
                    return NotFound(feature.sentence)
    providers = [after for each, after in pairwise(segments) if each.casefold() == "providers"]
    provider = next(reversed(providers), "Microsoft.EventGrid")
    return NotFound(f"No resource type of {provider} served here has this path.")
