"""Implements the ASGI application: the host's own pages, then the functions' routes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from devhost import origin
from devhost.errors import BadFunctionError, InvocationError
from devhost.functions.invoke import Invoker
from devhost.functions.loader import Function
from devhost.functions.metadata import HttpTrigger
from devhost.http import request as http_request
from devhost.http import response as http_response
from devhost.http import routes
from devhost.http.admin import Admin
from devhost.http.request import HostRequest
from devhost.http.response import HostResponse

#: Bytes; the default of FUNCTIONS_REQUEST_BODY_SIZE_LIMIT on Azure.
BODY_LIMIT = 104_857_600

#: The setting of that limit, as on Azure.
BODY_LIMIT_SETTING = "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"

_WRONG_HOST = (
    "The Host header names neither this machine (localhost, 127.0.0.1) nor the host of the setting "
    "PUSHGRID_PUBLIC_URL: send requests to one of them, or start the host with "
    "--env PUSHGRID_PUBLIC_URL=URL."
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFunction:
    """An HTTP function and its route."""

    function: Function
    trigger: HttpTrigger
    route: routes.RouteTemplate

    def __str__(self) -> str:
        methods = ",".join(sorted(self.trigger.methods)) or "any method"
        return f"/{self.route.template}  [{methods}]"


def endpoint(function: Function, prefix: str) -> HttpFunction:
    """
    Return the endpoint of an HTTP function.

    Raises:
        BadFunctionError: its route is malformed, not supported or reserved.
    """
    trigger = function.metadata.trigger
    if not isinstance(trigger, HttpTrigger):
        raise TypeError
    own = function.metadata.name if trigger.route is None else trigger.route
    route = routes.parse("/".join(part for part in (prefix, own.strip("/")) if part))
    if route.template.strip("/").split("/")[0].lower() in ("admin", "runtime"):
        raise BadFunctionError(f"route {route.template!r} is reserved for the host")
    return HttpFunction(function=function, trigger=trigger, route=route)


class HttpApp:
    """
    Answers requests; a method that no route takes is 404, like an unknown path.

    A request for another host than this machine and that of *public_url* is refused.
    """

    def __init__(
        self,
        *,
        endpoints: Iterable[HttpFunction],
        invoker: Invoker,
        admin: Admin,
        public_url: str = "",
        body_limit: int = BODY_LIMIT,
    ) -> None:
        self._endpoints = tuple(endpoints)
        self._invoker = invoker
        self._admin = admin
        self._public_url = public_url
        self._body_limit = body_limit

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one request."""
        if status := http_request.refusal_of_host(scope):
            await HostResponse(status=status).send(send)
            return
        request = http_request.read_request(scope)
        host = request.headers["host"]
        if not origin.is_for(host, self._public_url):
            _log.warning("400: %.160r: %s", host, _WRONG_HOST)
            await http_response.from_text(400, _WRONG_HOST).send(send)
            return
        try:
            body = await http_request.read_body(request.headers, receive, self._body_limit)
        except http_request.BodyTooLargeError:
            text = f"A body has at most {self._body_limit} bytes: {BODY_LIMIT_SETTING} sets that."
            status = 500
        except http_request.UnknownCodingError:
            status, text = 501, "Of transfer codings, only 'chunked' is supported."
        except ConnectionError:
            # The client has gone.
            return
        else:
            await (await self._answer(request, body)).send(send)
            return
        _log.warning("%d: %s", status, text)
        drain = partial(http_request.drain, receive)
        # The real host's answer has no body, so the hint goes to the log.
        await HostResponse(status=status).send_and_close(send, drain)

    async def _answer(self, request: HostRequest, body: bytes) -> HostResponse:
        own = self._admin.answer(request, body)
        if own is not None:
            return own
        if found := self._find(request.method, request.path):
            return await self._call(*found, request, body)
        # The real host's 404 has no body, so the hint goes to the log.
        line = f"{request.method} /{request.path}"
        _log.info("404: no function answers %.160r; GET / lists all routes", line)
        return HostResponse(status=404)

    def _find(self, method: str, path: str) -> tuple[HttpFunction, Mapping[str, str]] | None:
        for each in self._endpoints:
            if not each.trigger.methods or method in each.trigger.methods:
                params = each.route.match(path)
                if params is not None:
                    return each, params
        return None

    async def _call(
        self, chosen: HttpFunction, params: Mapping[str, str], request: HostRequest, body: bytes
    ) -> HostResponse:
        try:
            datum = await self._invoker.invoke(
                chosen.function, request.datum(params, body), trigger_metadata=None
            )
            return http_response.from_datum(datum)
        except InvocationError:
            return HostResponse(status=500)
        except (ValueError, UnicodeEncodeError) as fault:
            name = chosen.function.metadata.name
            _log.error("%s returned a response that cannot be sent: %s", name, fault)
            return HostResponse(status=500)
