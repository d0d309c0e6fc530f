"""Answers the host's own pages: `/`, the status, and functions started by hand."""

from __future__ import annotations

import asyncio
import html
import json
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from devhost.functions.loader import Function
from devhost.http.request import HostRequest
from devhost.http.response import HostResponse
from devhost.origin import is_cross_site

#: Runs a function with a text as its input; a failure has been reported.
RunByHand = Callable[[Function, str], Coroutine[Any, Any, None]]

_HOME = (
    "<!doctype html><title>Local Functions host</title><p>The function app is up and running.\n"
    "<pre>\n{routes}\n</pre>\n"
)
_RESERVED = frozenset({"admin", "runtime"})
_STARTING_IS_OFF = (
    "404: POST /admin/functions is off, since other machines can send requests; "
    "--admin-functions turns it on"
)
_log = logging.getLogger(__name__)
_STATUS = b'{"id": "devhost", "state": "Running", "version": "4", "errors": []}'


class Admin:
    """
    Answers the requests that are not for a function.

    *run*: None starts no function by hand. *routes* are the lines that `/` lists.
    """

    def __init__(
        self,
        *,
        functions: Iterable[Function],
        run: RunByHand | None,
        routes: Iterable[object],
    ) -> None:
        self._functions = {each.metadata.name.lower(): each for each in functions}
        self._run = run
        self._home = _home(routes)
        self._running: set[asyncio.Task[None]] = set()

    def answer(self, request: HostRequest, body: bytes) -> HostResponse | None:
        """Return the host's answer to *request*, or None if the request is for a function."""
        parts = request.path.lower().rstrip("/").split("/")
        if parts[0] in _RESERVED and is_cross_site(request.headers):
            return HostResponse(status=403)
        match request.method, parts:
            case "GET", [""]:
                return self._home
            case "GET", ["admin", "host", "status"]:
                return _page(b"application/json; charset=utf-8", _STATUS)
            case "POST", ["admin", "functions", name] if name in self._functions:
                if self._run is None:
                    _log.info(_STARTING_IS_OFF)
                    return HostResponse(status=404)
                return self._start(self._run, self._functions[name], body)
            case _:
                return HostResponse(status=404) if parts[0] in _RESERVED else None

    async def drain(self) -> None:
        """Wait for the functions that were started by hand."""
        if self._running:
            await asyncio.wait(self._running)

    def _start(self, run: RunByHand, function: Function, body: bytes) -> HostResponse:
        try:
            document = json.loads(body) if body.strip() else {}
            given = document.get("input") if isinstance(document, dict) else None
            text = given if isinstance(given, str) else "" if given is None else json.dumps(given)
            text.encode()
        except (ValueError, RecursionError):
            return HostResponse(status=400)
        task = asyncio.create_task(run(function, text))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return HostResponse(status=202)


def _home(routes: Iterable[object]) -> HostResponse:
    page = _HOME.format(routes=html.escape("\n".join(map(str, routes))))
    return _page(b"text/html", page.encode())


def _page(content_type: bytes, body: bytes) -> HostResponse:
    return HostResponse(status=200, headers=((b"content-type", content_type),), body=body)
