"""Repeats requests to storage that failed, within the limit of each request."""

from __future__ import annotations

import random
from http import HTTPStatus
from typing import Any, cast

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    ServiceResponseTimeoutError,
)
from azure.core.pipeline import PipelineRequest, PipelineResponse
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.queue import ExponentialRetry

from shared.adapters.awake_clock import awake_seconds
from shared.adapters.storage.limits import (
    CONNECT_SECONDS,
    ENDS_AT,
    LIMIT,
    LIMIT_SECONDS,
    READ_SECONDS,
    seconds_left,
)

TRIES = 3
_TRIES_FOR_TOKEN = 2  # Each may take 7 seconds, whatever is left.
_PAUSE = 1 / 8  # at most, of the limit
_LASTING = (HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class BoundedRetry(ExponentialRetry):
    """
    The retry policy of all pipelines to storage.

    A request is tried up to three times, about a second apart, and ends within its limit. What a
    ``Retry-After`` asks for is ignored. A try without an answer in time is repeated *hangs* times:
    storage may have done it, so that must do no harm.
    """

    def __init__(self, *, hangs: int = 0) -> None:
        super().__init__(retry_total=0)  # It makes one try.
        self._hangs = hangs

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        one_try: Any = super().send  # untyped
        options, transport = request.context.options, cast("Any", request.context.transport)
        limit = options.pop(LIMIT, LIMIT_SECONDS)
        ends_at = options[ENDS_AT] = awake_seconds() + limit
        hangs, tries = self._hangs, 0
        while True:
            tries += 1
            pause = random.uniform(0, limit * _PAUSE)  # noqa: S311 - no secret
            try:
                answer: PipelineResponse[Any, Any] = one_try(request)
            except AzureError as fault:
                hangs -= isinstance(fault, ServiceResponseTimeoutError)
                is_token = isinstance(fault, ClientAuthenticationError)
                most = _TRIES_FOR_TOKEN if is_token else TRIES
                if hangs < 0 or tries >= most or awake_seconds() + pause >= ends_at:
                    raise
            else:
                if not _is_passing(answer.http_response.status_code) or tries == TRIES:
                    return answer
                if awake_seconds() + pause >= ends_at:
                    return answer
                # The SDK forgets the answer to a download, and with it the open connection.
                answer.http_response.internal_response.close()
            transport.sleep(pause)


class BoundedTransport(RequestsTransport):  # type: ignore[misc]  # it is imported late
    """Sends one try of a request, with what is left of the request's time."""

    def send(self, request: Any, **options: Any) -> Any:
        left = seconds_left(options)
        connect = min(CONNECT_SECONDS, left / 3)
        return super().send(
            request,
            **options,
            connection_timeout=connect,
            read_timeout=min(READ_SECONDS, left - connect),
        )


def _is_passing(status: int) -> bool:
    return status in _PASSING or (
        status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in _LASTING
    )
