"""The ASGI application: probes, who may send what, and the app's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from server.http.reading import (
    BadRequest,
    BodyBudget,
    BodyTooLarge,
    ClientGone,
    Receive,
    RequestReader,
    Scope,
    TooManyBodies,
    decoded_path,
    peer_of,
    read_body,
)
from shared import telemetry
from shared.http import HttpAnswer, HttpRequest

Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_DRAIN_SECONDS = 5.0
_ALIVE, _READY = "healthz", "readyz"
_ONLY_PROXIES = (
    "This server takes requests over http from its proxies only, since everybody on the way could "
    "read the keys: send them to the proxy, over https."
)
_TOO_MANY = "Too many large bodies have come: try again later."


class _Unread(Exception):
    """The body was not read to its end; *answer* says why."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__()
        self.answer = answer


class Answering(Protocol):
    """Who answers the requests that are for the app."""

    async def answer(self, request: HttpRequest, path: str) -> HttpAnswer:
        """Answer *request*, of which *path* is the decoded path."""

    def too_large(self, request: HttpRequest, path: str, limit: int) -> HttpAnswer:
        """Refuse a body of more than *limit* bytes, of which nothing was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsgiApp:
    """
    Answers each request with the app, or before it.

    *not_ready* says why ``/readyz`` is 503, or nothing. *is_guarded*: over http only proxies and
    this machine may send anything but probes. *budget* bounds bodies until they are answered.
    """

    app: Answering
    reader: RequestReader
    not_ready: Callable[[], str | None]
    body_limit: int
    is_guarded: bool = False
    budget: BodyBudget = field(default_factory=BodyBudget)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive)
        except ClientGone:
            return
        except _Unread as refused:
            await _send_and_drain(refused.answer, receive, send)
        else:
            await _send(answer, send)

    async def _answer(self, scope: Scope, receive: Receive) -> HttpAnswer:
        path = decoded_path(scope["raw_path"].decode("latin-1"))
        if path in {_ALIVE, _READY} and scope["method"] in {"GET", "HEAD"}:
            return self._probe(path)
        if self.is_guarded and not self._is_private(scope):
            return _text(403, _ONLY_PROXIES)
        try:
            request = self.reader.read(scope)
        except BadRequest as error:
            return _text(400, str(error))
        try:
            body = await read_body(scope, receive, self.body_limit, self.budget)
        except BodyTooLarge:
            raise _Unread(self.app.too_large(request, path, self.body_limit)) from None
        except TooManyBodies:
            raise _Unread(_text(503, _TOO_MANY)) from None
        try:
            with self.budget.answering(len(body)):
                return await self.app.answer(replace(request, body=body), path)
        except TooManyBodies:
            return _text(503, _TOO_MANY)
        except Exception as error:  # noqa: BLE001 - a fault of ours ends no server
            fault = f"{type(error).__name__}: {error}"
            telemetry.error("request.failed", method=scope["method"], path=path, detail=fault)
            return _text(500, "The request failed by a fault of the server; its log has it.")

    def _probe(self, path: str) -> HttpAnswer:
        why = self.not_ready() if path == _READY else None
        return _text(503, why) if why else _text(200, "ok")

    def _is_private(self, scope: Scope) -> bool:
        peer = peer_of(scope)
        return scope["scheme"] == "https" or bool(
            peer and (peer.is_loopback or self.reader.is_proxy(peer))
        )


def _text(status: int, text: str) -> HttpAnswer:
    headers = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"}
    return HttpAnswer(status=status, headers=headers, body=f"{text}\n".encode())


async def _send(answer: HttpAnswer, send: Send) -> None:
    await send(_start(answer))
    await send({"type": "http.response.body", "body": _body(answer)})


async def _send_and_drain(answer: HttpAnswer, receive: Receive, send: Send) -> None:
    """
    Send *answer*, discard for some seconds what the client still sends, and close the connection.

    Closed before that, the connection would be reset, which can cost the client the answer.
    """
    await send(_start(answer, (b"connection", b"close")))
    await send({"type": "http.response.body", "body": _body(answer), "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while (await receive()).get("more_body"):
                pass
    await send({"type": "http.response.body", "body": b""})


def _start(answer: HttpAnswer, *more: tuple[bytes, bytes]) -> dict[str, Any]:
    own = [(name.encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
    length = [(b"content-length", b"%d" % len(answer.body))] if _has_body(answer) else []
    return {
        "type": "http.response.start",
        "status": answer.status,
        "headers": [*own, *length, *more],
    }


def _has_body(answer: HttpAnswer) -> bool:
    return answer.status not in {204, 304}


def _body(answer: HttpAnswer) -> bytes:
    return answer.body if _has_body(answer) else b""
