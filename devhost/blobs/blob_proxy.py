"""
An ASGI application in front of Azurite's blob service: passes requests on, and reports changes.

A change is reported after it is made and before the client has its answer. Only one part of a body,
and batches, are kept in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakValueDictionary
from xml.sax.saxutils import escape

import h11

from devhost.blobs.blob_changes import (
    DELETE,
    BatchItemAnswer,
    BlobChange,
    RefusedRequest,
    change_of,
    changes_in,
    is_batch,
    outcomes_in,
)
from devhost.blobs.upstream import exchange
from devhost.errors import HostError
from devhost.functions.host_module import BlobHandler
from devhost.origin import host_name
from devhost.storage.account import AccountConnection

_REFUSED = 300  # statuses from here on: nothing was changed
_MOST_BATCH = 4 * 1024 * 1024  # bytes, as storage has it
_HOP_BY_HOP = frozenset({b"connection", b"expect", b"keep-alive", b"proxy-connection"})
_NOT_STORED = "The blob is changed, but its event may not be stored."
_TICK = timedelta(microseconds=1)
_log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class BlobProxy:
    """
    Passes requests on to the blob service of *account*, and *report*s what they change.

    Raises:
        HostError: the account is not Azurite's.
    """

    def __init__(self, account: AccountConnection, report: BlobHandler) -> None:
        parts = urlsplit(account.blob_url)
        if parts.scheme != "http" or parts.path != f"/{account.name}" or not account.key:
            raise HostError(
                "--blob-events is for Azurite, over http and by its account key; "
                f"the storage account of the app is at {account.blob_url}"
            )
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._authority = parts.netloc
        self._account = account
        self._report = report
        self._latest = datetime.min.replace(tzinfo=UTC)
        # By blob, while it is being changed.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = _Request(scope, receive)
        try:
            await self._pass_on(request, send)
        except RefusedRequest as fault:
            await request.refuse(send, fault)
        except h11.LocalProtocolError:
            await request.refuse(send, RefusedRequest("the request is malformed"))
        except _Gone:
            return
        except (OSError, h11.RemoteProtocolError) as fault:
            _log.warning("the blob service does not answer: %r", fault)
            if request.is_answered:
                raise  # The client sees that the answer is cut off.
            await _refuse(send, 502, "InternalError", "The blob service does not answer.")

    async def _pass_on(self, request: _Request, send: Send) -> None:
        self._check_address(request)
        parts, changes = request.parts(), request.changes()
        if is_batch(request.method, request.target):
            batch = await _whole(parts)
            content_type = request.headers.get("content-type", "")
            changes = await asyncio.to_thread(changes_in, batch, content_type)
            parts = _one(batch)
        async with (
            exchange(self._host, self._port) as upstream,
            contextlib.AsyncExitStack() as held,
        ):
            last: h11.Request | h11.Data = request.head()
            async for part in parts:
                await upstream.send(last)
                last = h11.Data(part)
            # Storage changes nothing before it has the last part: a slow client holds up no other.
            for name in sorted({f"{each.container}/{each.blob}" for each in changes}):
                await held.enter_async_context(self._locks.setdefault(name, asyncio.Lock()))
            before = {each: await self._look_up(each) for each in changes if each.api == DELETE}
            await upstream.send(last)
            await upstream.send(h11.EndOfMessage())
            answer = await upstream.answer()
            body = upstream.body()
            if changes and answer.status_code < _REFUSED:
                whole = b"".join([part async for part in body])
                try:
                    await self._report_all(request, changes, before, answer, whole)
                except Exception:  # noqa: BLE001 - the app's own
                    _log.exception("no event may be stored of %s", [each[:3] for each in changes])
                    await _refuse(send, 503, "ServerBusy", _NOT_STORED)
                    return
                body = _one(whole)
            request.is_answered = True
            await _answer(send, answer, body)

    def _check_address(self, request: _Request) -> None:
        """Refuse what names its account in the host, or another: its changes would not be seen."""
        name, host = self._account.name, host_name(request.headers.get("host", self._authority))
        if not host:
            raise RefusedRequest("the Host header is malformed", "InvalidHeaderValue")
        account = unquote(request.path).split("/")[1:2]
        if account not in ([name], [f"{name}-secondary"]) or host.startswith(f"{name}."):
            raise RefusedRequest(f"with --blob-events, a blob's address is http://HOST/{name}/…")

    async def _report_all(
        self,
        request: _Request,
        changes: Sequence[BlobChange],
        before: Mapping[BlobChange, Mapping[str, str]],
        answer: h11.Response,
        body: bytes,
    ) -> None:
        headers = _text(answer.headers)
        whole = {"": BatchItemAnswer(answer.status_code, headers.get("x-ms-request-id", ""))}
        outcomes = {**whole, **outcomes_in(body, headers.get("content-type", ""))}
        for each in changes:
            outcome = outcomes.get(each.number)
            if outcome is None or outcome.status >= _REFUSED:
                continue
            found = before[each] if each in before else await self._look_up(each)
            self._latest = max(datetime.now(UTC), self._latest + _TICK)
            await self._report(
                {
                    "api": each.api,
                    "container": each.container,
                    "path": each.blob,
                    "url": f"http://{request.headers.get('host', self._authority)}{each.path}",
                    "etag": headers.get("etag", ""),
                    "written_at": self._latest,
                    "size": int(found.get("content-length", 0)),
                    "content_type": found.get("content-type", ""),
                    "blob_type": found.get("x-ms-blob-type", "BlockBlob"),
                    "access_tier": _tier(found),
                    "request_id": outcome.request_id,
                    "client_request_id": request.headers.get("x-ms-client-request-id", ""),
                }
            )

    async def _look_up(self, change: BlobChange) -> Mapping[str, str]:
        """Return what storage says of a blob; nothing if it is not there."""
        signed = self._account.sign("HEAD", change.path, {}, 0)
        headers = [("Host", self._authority), *signed.items()]
        async with exchange(self._host, self._port) as upstream:
            await upstream.send(h11.Request(method="HEAD", target=change.path, headers=headers))
            await upstream.send(h11.EndOfMessage())
            answer = await upstream.answer()
        return _text(answer.headers) if answer.status_code < _REFUSED else {}


class _Gone(Exception):
    """The client has gone before its request was whole."""


class _Request:
    """A request of a client."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive) -> None:
        self._receive = receive
        self._headers = scope["headers"]
        query = scope["query_string"].decode("latin-1")
        self.method: str = scope["method"]
        self.path: str = scope["raw_path"].decode("latin-1")
        self.target = self.path + (f"?{query}" if query else "")
        self.headers = _text(self._headers)
        self.is_answered = False

    def head(self) -> h11.Request:
        headers = [each for each in self._headers if each[0].lower() not in _HOP_BY_HOP]
        target = self.target.encode("latin-1")
        return h11.Request(method=self.method, target=target, headers=headers)

    def changes(self) -> Sequence[BlobChange]:
        found = change_of(self.method, self.target, self.headers)
        return [found] if found else []

    async def refuse(self, send: Send, fault: RefusedRequest) -> None:
        # Not the query: it may have a signature.
        _log.warning("blob request %.160r is refused: %s", self.path, fault)
        await _refuse(send, fault.status, fault.code, str(fault))

    async def parts(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            more = message.get("more_body", False)
            if body := message.get("body"):
                yield body


def _tier(found: Mapping[str, str]) -> str:
    is_default = found.get("x-ms-access-tier-inferred", "").lower() == "true"
    return "Default" if is_default else found.get("x-ms-access-tier", "Default")


def _text(headers: Any) -> dict[str, str]:
    """Return headers, names in lower case; of one that is given twice the first, as Node does."""
    found = dict[str, str]()
    for name, value in headers:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found


async def _whole(parts: AsyncIterator[bytes]) -> bytes:
    whole = bytearray()
    async for part in parts:
        whole += part
        if len(whole) > _MOST_BATCH:
            raise RefusedRequest(
                f"a batch has at most {_MOST_BATCH} bytes", "RequestBodyTooLarge", 413
            )
    return bytes(whole)


async def _one(part: bytes) -> AsyncIterator[bytes]:
    if part:
        yield part


async def _answer(send: Send, answer: h11.Response, body: AsyncIterator[bytes]) -> None:
    # The server has a date of its own.
    left_out = (*_HOP_BY_HOP, b"date", b"transfer-encoding")
    headers = [each for each in answer.headers if each[0] not in left_out]
    start = {"type": "http.response.start", "status": answer.status_code, "headers": headers}
    await send(start)
    async for part in body:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    """Answer as storage does: clients show code and message."""
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    body = f'<?xml version="1.0" encoding="utf-8"?>{error}'.encode()
    headers = [
        (b"content-length", b"%d" % len(body)),
        (b"content-type", b"application/xml"),
        (b"x-ms-error-code", code.encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
