"""Repeats requests to storage that failed, within the limit of each request."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from azure.core.exceptions import AzureError
from azure.core.pipeline import PipelineRequest, PipelineResponse
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.queue import ExponentialRetry

from shared.adapters.azure_storage.tries import (
    CONNECT_SECONDS,
    LIMIT,
    LIMIT_SECONDS,
    READ_SECONDS,
    TIME,
    Tries,
)


class BoundedRetry(ExponentialRetry):
    """The retry policy of the SDK's pipelines: `Tries`, of which *hangs* may hang."""

    def __init__(self, clock: Callable[[], float], *, hangs: int = 0) -> None:
        super().__init__(retry_total=0)  # It makes one try.
        self._clock = clock  # in seconds, by which a request is limited
        self._hangs = hangs

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        one_try: Any = super().send  # untyped
        options, transport = request.context.options, cast("Any", request.context.transport)
        tries = Tries(hangs=self._hangs, limit=options.pop(LIMIT, LIMIT_SECONDS), clock=self._clock)
        options[TIME] = tries
        while True:
            try:
                answer: PipelineResponse[Any, Any] = one_try(request)
            except AzureError as fault:
                pause = tries.pause_after(fault)
                if pause is None:
                    raise
            else:
                pause = tries.pause_after(answer.http_response.status_code)
                if pause is None:
                    return answer
                # The SDK forgets the answer to a download, and with it the open connection.
                answer.http_response.internal_response.close()
            transport.sleep(pause)


class BoundedTransport(RequestsTransport):  # type: ignore[misc]  # it is imported late
    """Sends one try of a request, with what is left of its time; *answered* gets each ``Date``."""

    def __init__(self, answered: Callable[[str | None, float], object], **options: Any) -> None:
        super().__init__(**options)
        self._answered = answered

    def send(self, request: Any, **options: Any) -> Any:
        left = options.pop(TIME).seconds_left()
        connect = min(CONNECT_SECONDS, left / 3)
        began = time.monotonic()  # not that of the limit, which may stand still
        answer = super().send(
            request,
            **options,
            connection_timeout=connect,
            read_timeout=min(READ_SECONDS, left - connect),
        )
        self._answered(answer.headers.get("Date"), time.monotonic() - began)
        return answer
