"""
Calls the REST API of the queue service.

Most of a listener's cost per message is here, in the app's own process.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from azure.core.exceptions import AzureError

from devhost.queue.connections import Connections, StorageAnswer
from devhost.storage.account import AccountConnection
from devhost.storage.errors import (
    QueueGoneError,
    StaleReceiptError,
    StorageBusyError,
    StorageRefusedError,
    StorageUnreachableError,
)

_T = TypeVar("_T")
_STALE = ("MessageNotFound", "PopReceiptMismatch")
_GONE = ("QueueNotFound", "QueueBeingDeleted", "QueueDisabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """A received message."""

    id: str
    pop_receipt: str
    dequeue_count: int
    insertion_time: datetime
    expiration_time: datetime
    next_visible_time: datetime
    #: Not decoded.
    text: str


class RestQueue:
    """
    One queue of a storage account; tokens are fetched on one of *threads*.

    Every method may raise QueueGoneError, StorageBusyError and StorageRefusedError.
    """

    def __init__(self, account: AccountConnection, name: str, threads: Executor) -> None:
        self._account = account
        self._threads = threads
        self._path = f"{urlsplit(account.queue_url).path}/{name}"
        self._connections = Connections(account.queue_url)

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._connections.close()

    async def receive(self, count: int, hidden: timedelta) -> list[ReceivedMessage]:
        """Receive up to *count* messages and hide them."""
        query = {"numofmessages": str(count), "visibilitytimeout": _seconds(hidden)}
        response = await self._run("GET", "/messages", query)
        return _read(lambda: _parse_messages(response.body))

    async def delete(self, message_id: str, pop_receipt: str) -> None:
        """Delete a message; raises StaleReceiptError."""
        await self._run("DELETE", f"/messages/{message_id}", {"popreceipt": pop_receipt})

    async def hide(self, message_id: str, pop_receipt: str, hidden: timedelta) -> str:
        """Hide a message for *hidden* more and return its receipt; raises StaleReceiptError."""
        query = {"popreceipt": pop_receipt, "visibilitytimeout": _seconds(hidden)}
        response = await self._run("PUT", f"/messages/{message_id}", query)
        return _read(lambda: str(response.headers["x-ms-popreceipt"]))

    async def send(self, text: str) -> None:
        """Add a message; the queue is created if it is missing."""
        body = f"<QueueMessage><MessageText>{escape(text)}</MessageText></QueueMessage>".encode()
        try:
            await self._run("POST", "/messages", {}, body)
        except QueueGoneError:
            await self._run("PUT", "", {})
            await self._run("POST", "/messages", {}, body)

    async def _run(
        self, method: str, path: str, query: Mapping[str, str], body: bytes = b""
    ) -> StorageAnswer:
        path = self._path + path
        headers = await self._sign(method, path, query, len(body))
        target = f"{path}?{urlencode(query, quote_via=quote, safe='')}" if query else path
        if self._account.sas:
            target += ("&" if query else "?") + self._account.sas
        try:
            answer = await self._connections.request(method, target, headers, body)
        except OSError as fault:
            text = f"{self._connections.server}: {type(fault).__name__}{self._account.hint}"
            raise StorageUnreachableError(text) from None
        if answer.status < 300:  # noqa: PLR2004 - success
            return answer
        raise _refusal(answer.status, answer.headers.get("x-ms-error-code", ""))

    async def _sign(
        self, method: str, path: str, query: Mapping[str, str], length: int
    ) -> dict[str, str]:
        sign = functools.partial(self._account.sign, method, path, query, length)
        if self._account.credential is None:
            return sign()
        try:
            # The credential may ask for a token.
            return await asyncio.get_running_loop().run_in_executor(self._threads, sign)
        except AzureError as fault:
            raise StorageBusyError(f"no token: {type(fault).__name__}") from fault


def _refusal(status: int, code: str) -> Exception:
    # The code decides before the status: Azurite and Azure differ in the status.
    if code in _STALE:
        return StaleReceiptError(code)
    if code in _GONE or (status == 404 and not code):  # noqa: PLR2004
        return QueueGoneError(code or "QueueNotFound")
    if status >= 500 or status in (408, 429):  # noqa: PLR2004
        return StorageBusyError(f"{status} {code}".strip())
    return StorageRefusedError(f"{status} {code}".strip())


def _seconds(span: timedelta) -> str:
    return str(int(span.total_seconds()))


def _read(parse: Callable[[], _T]) -> _T:
    try:
        return parse()
    except (ET.ParseError, KeyError, ValueError) as fault:
        raise StorageBusyError("the response is not a queue service's") from fault


def _parse_messages(body: bytes) -> list[ReceivedMessage]:
    root = ET.fromstring(body)  # noqa: S314 - from our own storage account
    if root.tag != "QueueMessagesList":
        raise ValueError(root.tag)
    return [_parse_message(element) for element in root.iter("QueueMessage")]


def _parse_message(element: ET.Element) -> ReceivedMessage:
    fields = {child.tag: child.text or "" for child in element}
    return ReceivedMessage(
        id=fields["MessageId"],
        pop_receipt=fields["PopReceipt"],
        dequeue_count=int(fields["DequeueCount"]),
        insertion_time=_time(fields["InsertionTime"]),
        expiration_time=_time(fields["ExpirationTime"]),
        next_visible_time=_time(fields["TimeNextVisible"]),
        text=fields["MessageText"],
    )


@functools.lru_cache(maxsize=256)  # of whole seconds: most messages share theirs
def _time(text: str) -> datetime:
    return parsedate_to_datetime(text).astimezone(UTC)
