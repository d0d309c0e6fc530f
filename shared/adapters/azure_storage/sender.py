"""Puts queue messages on the event loop; texts are stored as they are: legal XML."""

from __future__ import annotations

import asyncio
import re
from asyncio import sleep
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from azure.core.pipeline.transport import HttpRequest, HttpResponse

from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.errors import none_if_code, storage_errors
from shared.adapters.azure_storage.queue_authorization import Authorization, SdkResponse
from shared.adapters.azure_storage.queues import GONE, whole_seconds
from shared.adapters.azure_storage.tries import LIMIT_SECONDS, READ_SECONDS, Tries
from shared.engine.ports import OffLoop, PutResult, Queue, Receipt
from shared.errors import StorageUnavailable, is_shortage
from shared.http import Answered, Exchange, Failure, NotAnswered, OutboundRequest

PUTS = 64  # at a time on each queue, in one process
SIDE_BY_SIDE = 16  # of them for one call, so that a few texts don't wait for many others
_NEVER = -1
_UNAUTHORIZED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
NO_RECEIPT = Receipt("", "")  # of a message that is stored, as far as the status says
_STORED = re.compile(rb"<MessageId>([^<]+)<.*<PopReceipt>([^<]+)<", re.DOTALL)

Send = Callable[[OutboundRequest, timedelta], Awaitable[Exchange]]
SendOnce = Callable[[OutboundRequest], Awaitable[Exchange]]


class StorageSender:
    """
    Sender on Azure queues. A queue that is missing is made by a put.

    *send* sends one request, whose address it does not judge; it never raises. The SDK's clients,
    which block, are used *off_loop*. *visible* gets the queue of each message that was put and
    is visible.
    """

    def __init__(
        self,
        account: StorageClients,
        send: Send,
        off_loop: OffLoop,
        visible: Callable[[Queue], object] = lambda _: None,
    ) -> None:
        self._account = account
        self._visible = visible
        self._off_loop = off_loop
        self._message_put = MessagePut(account, send, off_loop)
        self._free = {queue: asyncio.Semaphore(PUTS) for queue in Queue}

    async def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        hidden = whole_seconds(visible_in)
        receipt = await self._put(queue, text, hidden)
        if not hidden:
            self._visible(queue)
        return receipt

    async def _put(self, queue: Queue, text: str, hidden: int) -> Receipt:
        put = partial(self._message_put.put, queue, text, hidden=hidden, expires=_NEVER)
        async with self._free[queue]:
            with storage_errors():
                try:
                    return await put()
                except HttpResponseError as error:
                    # The code of an answer that was cut off is not known; no other put is a 404.
                    if error.status_code != HTTPStatus.NOT_FOUND:
                        raise
                await self._off_loop(partial(self._create, queue))
                return await put()

    async def put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta = timedelta()
    ) -> Sequence[PutResult]:
        free = asyncio.Semaphore(SIDE_BY_SIDE)

        async def put(text: str) -> Receipt:
            async with free:
                return await self.put(queue, text, visible_in)

        puts: list[PutResult] = []
        for ended in await asyncio.gather(*map(put, texts), return_exceptions=True):
            if isinstance(ended, BaseException) and not isinstance(ended, StorageUnavailable):
                raise ended
            puts.append(ended)
        return puts

    async def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        if receipt == NO_RECEIPT:
            return False

        def delete() -> bool:
            self._account.queue(queue).delete_message(*receipt)
            return True

        with storage_errors():
            return await self._off_loop(lambda: none_if_code(delete, *GONE)) or False

    async def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        if receipt == NO_RECEIPT:
            return None

        def update() -> Receipt:
            updated = self._account.queue(queue).update_message(
                *receipt, content=text, visibility_timeout=whole_seconds(visible_in)
            )
            return receipt._replace(version=updated.pop_receipt or "")

        with storage_errors():
            return await self._off_loop(lambda: none_if_code(update, *GONE))

    def _create(self, queue: Queue) -> None:
        none_if_code(self._account.queue(queue).create_queue, "QueueAlreadyExists")


class _QueueTarget(NamedTuple):
    """A queue's address, the signature that it may need, and who authorizes requests to it."""

    url: str
    signature: str
    api_version: str
    authorization: Authorization


class MessagePut:
    """
    The request Put Message.

    A put by the SDK's client costs 2 ms of processor time: for models, for tracing, for policies
    that a put does not need, and for the library requests. *send* sends one request and never
    raises. What blocks is done *off_loop*: to import the SDK, and to fetch a token.

    Source: https://learn.microsoft.com/rest/api/storageservices/put-message
    """

    hangs = 1  # tries without an answer in time that are repeated: each may be a duplicate

    def __init__(self, account: StorageClients, send: Send, off_loop: OffLoop) -> None:
        self._account = account
        self._send = send
        self._off_loop = off_loop
        self._targets: dict[str, _QueueTarget] = {}

    async def put(self, queue: str, text: str, *, hidden: int, expires: int) -> Receipt:
        """
        Put *text*, which must be legal XML; *hidden* and *expires* are seconds.

        The status 201 counts, whatever comes of the rest of the answer.

        Raises:
            AzureError: as the SDK's client does, with ``error_code`` if storage refuses.
            StorageUnavailable: no thread can be had.
        """
        request, authorization = await self._request(
            self._account.queue, queue, text, hidden, expires
        )
        answer = await self._answer(request, authorization)
        if answer.status_code != HTTPStatus.CREATED:
            raise _refusal(answer)
        receipt = _STORED.search(answer.body())  # The rest of the answer may have been cut off.
        return Receipt(receipt[1].decode(), receipt[2].decode()) if receipt else NO_RECEIPT

    async def try_once(self, queue: str, text: str, *, expires: int, send: SendOnce) -> Exchange:
        """
        Put *text* in any queue of the account by *send*, with one try; return storage's answer.

        Never raises for what storage or the authority of tokens does.
        """
        try:
            request, authorization = await self._request(
                self._account.foreign_queue, queue, text, 0, expires
            )
            return await self._authorized(request, authorization, send)
        except (AzureError, StorageUnavailable) as error:
            is_ours = isinstance(error, StorageUnavailable) or is_shortage(error)
            failure = Failure.SHORTAGE if is_ours else Failure.NO_AUTHORITY
            return NotAnswered(failure, repr(error), 0.0)

    async def _request(
        self, client: Callable[[str], Any], queue: str, text: str, hidden: int, expires: int
    ) -> tuple[HttpRequest, Authorization]:
        target = self._targets.get(queue)
        if target is None:
            target = await self._off_loop(partial(self._target, client, queue))
            self._targets[queue] = target
        url = f"{target.url}/messages?visibilitytimeout={hidden}&messagettl={expires}"
        body = f"<QueueMessage><MessageText>{escape(text)}</MessageText></QueueMessage>".encode()
        headers = {
            "Content-Length": str(len(body)),
            "Content-Type": "application/xml",
            "x-ms-date": formatdate(usegmt=True),
            "x-ms-version": target.api_version,
        }
        signed = f"{url}&{target.signature}" if target.signature else url
        request = HttpRequest("POST", signed, headers=headers)
        request.set_bytes_body(body)
        return request, target.authorization

    def _target(self, client_of: Callable[[str], Any], queue: str) -> _QueueTarget:
        client = client_of(queue)
        url, _, signature = client.url.partition("?")
        policy = self._account.authorization_of_queues()
        return _QueueTarget(url, signature, client.api_version, Authorization(policy))

    async def _answer(self, request: HttpRequest, authorization: Authorization) -> HttpResponse:
        """Return the answer to the last try."""
        tries = Tries(hangs=self.hangs, limit=LIMIT_SECONDS, clock=self._account.clock)
        while True:
            try:
                answer = await self._try(request, authorization, tries)
            except AzureError as fault:
                pause = tries.pause_after(fault)
                if pause is None:
                    raise
            else:
                pause = tries.pause_after(answer.status_code)
                if pause is None:
                    return answer
            await sleep(pause)

    async def _authorized(
        self, request: HttpRequest, authorization: Authorization, send: SendOnce
    ) -> Exchange:
        """Send *request* by *send*, and again if it was refused with a demand that can be met."""
        if authorization.waits:
            await self._off_loop(partial(authorization.add, request))
        else:
            authorization.add(request)
        began = monotonic()
        answer = await send(_call(request))
        if isinstance(answer, Answered):
            self._account.answered(answer.headers.get("date"), monotonic() - began)
        if isinstance(answer, Answered) and answer.status == HTTPStatus.UNAUTHORIZED:
            refusal = SdkResponse(request, answer)
            if await self._off_loop(partial(authorization.add, request, refusal)):
                return await send(_call(request))
        return answer

    async def _try(
        self, request: HttpRequest, authorization: Authorization, tries: Tries
    ) -> HttpResponse:
        def send(call: OutboundRequest) -> Awaitable[Exchange]:
            # The sender takes as long to connect, and then again until the answer is complete.
            timeout = min(READ_SECONDS, tries.seconds_left() / 2)
            return self._send(call, timedelta(seconds=timeout))

        answer = await self._authorized(request, authorization, send)
        if isinstance(answer, Answered):
            return SdkResponse(request, answer)
        if answer.status:
            return SdkResponse(request, Answered(answer.status, {}, b"", answer.seconds))
        if answer.failure is Failure.TIMED_OUT:
            raise ServiceResponseTimeoutError(answer.detail)
        if answer.failure is Failure.SOCKET:
            raise ServiceResponseError(answer.detail)
        raise ServiceRequestError(answer.detail)


def _call(request: HttpRequest) -> OutboundRequest:
    headers = dict(request.headers)
    headers.pop("Content-Length", None)  # signed here, written by the sender
    body: Any = request.body  # bytes, as it was set
    return OutboundRequest(request.method, request.url, headers, body, wants_body=True)


def _refusal(answer: HttpResponse) -> HttpResponseError:
    code = answer.headers.get("x-ms-error-code")
    kind = ClientAuthenticationError if answer.status_code in _UNAUTHORIZED else HttpResponseError
    error = kind(f"{answer.status_code} {code}")
    error.status_code, error.__dict__["error_code"] = answer.status_code, code
    return error
