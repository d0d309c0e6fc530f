"""Puts queue messages with the SDK's own authorization and retries, at a seventh of its cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from email.utils import formatdate
from typing import Any
from xml.sax.saxutils import escape

from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from azure.core.pipeline.transport import HttpRequest, HttpResponse, HttpTransport

from shared.adapters.storage.account import StorageAccount
from shared.adapters.storage.limits import READ_SECONDS, seconds_left
from shared.engine.ports import Receipt
from shared.http import Answered, Exchange, Failure, OutboundRequest

_CREATED = 201
_UNAUTHORIZED = (401, 403)
NO_RECEIPT = Receipt(("", ""))  # of a message that is stored, as far as the status says
_STORED = re.compile(rb"<MessageId>([^<]+)<.*<PopReceipt>([^<]+)<", re.DOTALL)

Send = Callable[[OutboundRequest, timedelta], Exchange]


class MessagePut:
    """
    The request Put Message.

    A put by the SDK's client costs 2 ms of processor time: for models, for tracing, for policies
    that a put does not need, and for the library requests. *send* sends one request and never
    raises.

    Source: https://learn.microsoft.com/rest/api/storageservices/put-message
    """

    def __init__(self, account: StorageAccount, send: Send) -> None:
        self._account = account
        self._transport = _Transport(send)

    def put(self, queue: str, text: str, *, hidden: int, expires: int) -> Receipt:
        """
        Put *text*, which must be legal XML; *hidden* and *expires* are seconds.

        The status 201 counts, whatever comes of the rest of the answer.

        Raises:
            AzureError: as the SDK's client does, with ``error_code`` if storage refuses.
        """
        client = self._account.queue(queue)
        url, _, signature = client.url.partition("?")
        url += f"/messages?visibilitytimeout={hidden}&messagettl={expires}"
        body = f"<QueueMessage><MessageText>{escape(text)}</MessageText></QueueMessage>".encode()
        headers = {
            "Content-Length": str(len(body)),
            "Content-Type": "application/xml",
            "x-ms-date": formatdate(usegmt=True),
            "x-ms-version": client.api_version,
        }
        request = HttpRequest("POST", f"{url}&{signature}" if signature else url, headers=headers)
        request.set_bytes_body(body)
        answer = self._account.send_to_queues(request, self._transport)
        if answer.status_code != _CREATED:
            raise _refusal(answer)
        receipt = _STORED.search(answer.body())  # The rest of the answer may have been cut off.
        return Receipt((receipt[1].decode(), receipt[2].decode())) if receipt else NO_RECEIPT


class _Transport(HttpTransport[HttpRequest, HttpResponse]):
    """Sends the requests of a pipeline with *send*."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def send(self, request: HttpRequest, **options: Any) -> HttpResponse:
        headers = dict(request.headers)
        headers.pop("Content-Length", None)  # signed here, written by the sender
        body: Any = request.body  # bytes, as it was set
        call = OutboundRequest(request.method, request.url, headers, body, wants_body=True)
        # The sender takes as long to connect, and then again until the answer is complete.
        timeout = min(READ_SECONDS, seconds_left(options) / 2)
        answer = self._send(call, timedelta(seconds=timeout))
        if isinstance(answer, Answered):
            return _Response(request, answer)
        if answer.status:
            return _Response(request, Answered(answer.status, {}, b"", answer.seconds))
        if answer.failure is Failure.TIMED_OUT:
            raise ServiceResponseTimeoutError(answer.detail)
        if answer.failure is Failure.SOCKET:
            raise ServiceResponseError(answer.detail)
        raise ServiceRequestError(answer.detail)

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class _Response(HttpResponse):
    def __init__(self, request: HttpRequest, answer: Answered) -> None:
        super().__init__(request, self)
        self.status_code = answer.status
        self.headers = dict(answer.headers)
        self._body = answer.body

    def body(self) -> bytes:
        return self._body

    def close(self) -> None:
        pass


def _refusal(answer: HttpResponse) -> HttpResponseError:
    code = answer.headers.get("x-ms-error-code")
    kind = ClientAuthenticationError if answer.status_code in _UNAUTHORIZED else HttpResponseError
    error = kind(f"{answer.status_code} {code}")
    error.status_code, error.__dict__["error_code"] = answer.status_code, code
    return error
