"""Pushes events into storage queues."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Coroutine, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from shared.engine.ports import Pusher
from shared.http import (
    Answered,
    Exchange,
    Failure,
    LateAnswerHandler,
    NotAnswered,
    OutboundRequest,
    QueueAddress,
)

if TYPE_CHECKING:
    from shared.adapters.azure_storage.sender import MessagePut

MAX_TEXT = 64 * 1024  # characters of a message: 48 KiB before Base64


class QueuePusher:
    """
    Pusher that puts the body of a request for a queue there, in Base64; *webhooks* sends others.

    *accounts* puts messages, by account. A put is one request, at any address, which *storage*
    sends: whoever wrote the settings has chosen it. The answer is storage's own, but 200 for its
    201, which every edition of the delivery rules takes for a success. Its body is the code of
    storage's error, since storage's own body may repeat the request's signature.
    """

    def __init__(
        self, webhooks: Pusher, storage: Pusher, accounts: Mapping[str, MessagePut]
    ) -> None:
        self._webhooks = webhooks
        self._storage = storage
        self._accounts = accounts

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Coroutine[Any, Any, Exchange]:
        if request.queue is None:
            return self._webhooks.send(request, timeout, late)
        return self._put(request, request.queue, timeout, late)

    async def _put(
        self,
        request: OutboundRequest,
        address: QueueAddress,
        timeout: timedelta,
        late: LateAnswerHandler | None,
    ) -> Exchange:
        account, text = self._accounts.get(address.account), b64encode(request.body).decode()
        if account is None:
            why = f"PUSHGRID_DEADLETTER_ACCOUNTS gives no access to '{address.account}'"
            return NotAnswered(Failure.NOT_ALLOWED, why, 0.0)
        if len(text) > MAX_TEXT:
            return Answered(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {}, b"", 0.0)

        def send(put: OutboundRequest) -> Awaitable[Exchange]:
            asked = put._replace(wants_body=False, examines_peer=request.examines_peer)
            return self._storage.send(asked, timeout, late)

        put = account.try_once(address.queue, text, expires=address.keep_seconds, send=send)
        exchange = await put
        if isinstance(exchange, NotAnswered):
            return exchange
        is_stored = exchange.status == HTTPStatus.CREATED
        status = HTTPStatus.OK if is_stored else exchange.status
        code = exchange.headers.get("x-ms-error-code", "")
        return exchange._replace(status=status, body=code.encode())
