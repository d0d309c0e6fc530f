"""The management API: who may call, which route is meant, and every error as ARM writes it."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from shared.engine.manage.arm_json import error_answer
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.subscriptions import (
    delete_subscription,
    get_subscription,
    list_subscriptions,
    put_subscription,
)
from shared.engine.manage.topics import delete_topic, get_topic, list_keys, list_topics, put_topic
from shared.errors import (
    AppError,
    Fault,
    InvalidDocument,
    MethodNotAllowed,
    NotFound,
    StorageUnavailable,
    Unauthenticated,
)
from shared.http import HttpAnswer, HttpRequest

Handler = Callable[[ManagePorts, Call], HttpAnswer]


class Route(NamedTuple):
    """A path whose segments in braces have names, and what answers each verb on it."""

    segments: tuple[str, ...]
    handlers: Mapping[str, Handler]


def _route(path: str, **handlers: Handler) -> Route:
    return Route(tuple(path.split("/")), handlers)


_SUBSCRIPTION = "subscriptions/{subscription}"
_PROVIDER = "providers/Microsoft.EventGrid"
_TOPICS = f"{_SUBSCRIPTION}/resourceGroups/{{group}}/{_PROVIDER}/topics"
_EVENT_SUBSCRIPTIONS = f"{_TOPICS}/{{topic}}/eventSubscriptions"
ROUTES = (
    _route(f"{_SUBSCRIPTION}/{_PROVIDER}/topics", GET=list_topics),
    _route(_TOPICS, GET=list_topics),
    _route(f"{_TOPICS}/{{topic}}", GET=get_topic, PUT=put_topic, DELETE=delete_topic),
    _route(f"{_TOPICS}/{{topic}}/listKeys", POST=list_keys),
    _route(_EVENT_SUBSCRIPTIONS, GET=list_subscriptions),
    _route(
        f"{_EVENT_SUBSCRIPTIONS}/{{name}}",
        GET=get_subscription,
        PUT=put_subscription,
        DELETE=delete_subscription,
    ),
)
_API_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?", re.ASCII)
_RETRY_AFTER_SECONDS = "5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manage(ManagePorts):
    """Answers management requests."""

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Answer *request*; whatever is wrong with it is an answer, too."""
        try:
            answer = self._answer(request)
        except AppError as error:
            answer = error_answer(error)
            extra = {
                Unauthenticated: {"WWW-Authenticate": "Bearer"},
                StorageUnavailable: {"Retry-After": _RETRY_AFTER_SECONDS},
            }.get(type(error), {})
            answer = replace(answer, headers={**answer.headers, **extra})
        always = {"x-ms-request-id": self.new_id(), "Cache-Control": "no-store"}
        return replace(answer, headers={**answer.headers, **always})

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        check_admin_key(request.headers.get("authorization"), self.admin_key)
        query = {name.lower(): value for name, value in request.query.items()}
        _check_api_version(query.get("api-version"))
        url = urlsplit(request.url)
        route, names = _find(url.path)
        handler = route.handlers.get(request.method.upper())
        if handler is None:
            refused = error_answer(MethodNotAllowed())
            allow = {"Allow": ", ".join(route.handlers)}
            return replace(refused, headers={**refused.headers, **allow})
        call = Call(
            names=names,
            path=url.path,
            query=query,
            body=request.body,
            public_url=self.public_url or f"{url.scheme}://{url.netloc}",
        )
        return handler(self, call)


def check_admin_key(authorization: str | None, admin_key: str | None) -> None:
    """
    Let the operator in, and nobody when there is no key.

    Raises:
        Unauthenticated: it is somebody else.
    """
    scheme, _, token = (authorization or "").partition(" ")
    if not admin_key:
        reason = "The management API is closed: PUSHGRID_ADMIN_KEY is not set."
    elif not authorization:
        reason = "Authentication failed. The 'Authorization' header is missing."
    elif scheme.lower() != "bearer":
        reason = "Authentication failed. The 'Authorization' header is not a Bearer token."
    elif not hmac.compare_digest(token.strip().encode(), admin_key.encode()):
        reason = "Authentication failed. The token is not the admin key."
    else:
        return
    raise Unauthenticated(reason, faults=(Fault(code="AuthenticationFailed", message=reason),))


def _check_api_version(version: str | None) -> None:
    if not version:
        code = "MissingApiVersionParameter"
        message = "The api-version query parameter (?api-version=) is required for all requests."
    elif not _API_VERSION.fullmatch(version):
        code = "InvalidApiVersionParameter"
        message = "The api-version is invalid: it is a date, such as '2025-02-15'."
    else:
        return
    raise InvalidDocument(message, faults=(Fault(code=code, message=message),))


def _find(path: str) -> tuple[Route, Mapping[str, str]]:
    """Return the route that *path* takes, and what its names stand for."""
    # Split before decoding: an encoded slash belongs to its segment.
    segments = [unquote(segment) for segment in path.strip("/").split("/")]
    for route in ROUTES:
        names = _match(route.segments, segments)
        if names is not None:
            return route, names
    raise NotFound("No resource type of Microsoft.EventGrid served here has this path.")


def _match(wanted: tuple[str, ...], segments: list[str]) -> Mapping[str, str] | None:
    if len(wanted) != len(segments):
        return None
    names = {}
    for pattern, segment in zip(wanted, segments, strict=True):
        if pattern.startswith("{") and segment:
            names[pattern[1:-1]] = segment
        elif pattern.casefold() != segment.casefold():
            return None
    return names
