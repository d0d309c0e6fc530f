"""The host's own pages: `/` and what operators' scripts ask below `/admin`."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from devhost.errors import InvocationError
from devhost.functions.loader import Function
from devhost.functions.metadata import BINDING_TYPES
from devhost.http.keys import Keys
from devhost.http.request import Request
from devhost.http.response import Response

#: Runs a function by hand with a text as its input.
RunByHand = Callable[[Function, str], Awaitable[None]]

_HOME = (
    "<!doctype html><title>Local Functions host</title><p>The function app is up and running.\n"
    "<pre>\n{routes}\n</pre>\n"
)


class Admin:
    """
    Answers what is not for a function.

    *routes* are the lines that `/` lists; ``None``: there is no such page.
    """

    def __init__(
        self,
        *,
        functions: Iterable[Function],
        run: RunByHand,
        keys: Keys | None,
        status: Mapping[str, object],
        routes: Iterable[object] | None,
    ) -> None:
        self._functions = {each.metadata.name.lower(): each for each in functions}
        self._run = run
        self._keys = keys
        self._status = status
        self._home = None if routes is None else _home(routes)
        self._running: set[asyncio.Task[None]] = set()

    def answer(self, request: Request, body: bytes) -> Response | None:
        """Return the host's answer to *request*, or None if it is the functions' business."""
        if not request.path and request.method == "GET":
            return self._home or _empty(204)
        parts = request.path.lower().rstrip("/").split("/")
        if parts[0] not in ("admin", "runtime"):
            return None
        is_ping = parts == ["admin", "host", "ping"]
        if self._keys and not is_ping and not self._keys.open(request, "admin", ""):
            return _empty(401)
        return self._page(request.method, parts, body)

    def _page(self, method: str, parts: list[str], body: bytes) -> Response:
        match method, parts:
            case "GET" | "POST", ["admin", "host", "ping"]:
                return _empty(200)
            case "GET", ["admin", "host", "status"]:
                return _json(self._status)
            case "GET", ["admin", "functions"]:
                return _json([_describe(each) for each in self._functions.values()])
            case "POST", ["admin", "functions", name] if name in self._functions:
                return self._start(self._functions[name], body)
            case _:
                return _empty(404)

    async def drain(self) -> None:
        """Wait for the functions that were started by hand."""
        if self._running:
            await asyncio.wait(self._running)

    def _start(self, function: Function, body: bytes) -> Response:
        try:
            asked = json.loads(body) if body.strip() else {}
            given = asked.get("input") if isinstance(asked, dict) else None
            text = given if isinstance(given, str) else "" if given is None else json.dumps(given)
            text.encode()
        except (ValueError, RecursionError):
            return _empty(400)
        task = asyncio.create_task(self._run_by_hand(function, text))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return _empty(202)

    async def _run_by_hand(self, function: Function, text: str) -> None:
        # It has been reported; whoever started it went on long ago.
        with contextlib.suppress(InvocationError):
            await self._run(function, text)


def _home(routes: Iterable[object]) -> Response:
    page = _HOME.format(routes=html.escape("\n".join(map(str, routes))))
    return Response(status=200, headers=((b"content-type", b"text/html"),), body=page.encode())


def _describe(function: Function) -> dict[str, object]:
    metadata = function.metadata
    return {
        "name": metadata.name,
        "language": "python",
        "isDisabled": metadata.disabled,
        "isDirect": True,
        "config": {
            "entryPoint": metadata.entry_point,
            "scriptFile": metadata.script.name,
            "bindings": [
                {"name": metadata.trigger.name, "type": BINDING_TYPES[type(metadata.trigger)]}
            ],
        },
        "errors": [function.fault] if function.fault else [],
    }


def _json(value: Any) -> Response:
    return Response(
        status=200,
        headers=((b"content-type", b"application/json; charset=utf-8"),),
        body=json.dumps(value).encode(),
    )


def _empty(status: int) -> Response:
    return Response(status=status)
