"""Authorizes requests to queues as the SDK does, without its pipeline around each."""

from __future__ import annotations

from typing import Any

from azure.core.pipeline import Pipeline
from azure.core.pipeline.transport import HttpRequest, HttpResponse
from azure.core.utils import case_insensitive_dict

from shared.http import Answered


class Authorization:
    """Authorizes requests by *policy*, whose pipeline ends where it would send them."""

    def __init__(self, policy: Any) -> None:
        transport: Any = self  # of which a pipeline uses `send` alone
        self._policy = policy
        self._pipeline = Pipeline[HttpRequest, HttpResponse](transport, [policy])

    @property
    def waits(self) -> bool:
        """Whether the next request has to wait for a token."""
        return bool(getattr(self._policy, "_need_new_token", False))

    def add(self, request: HttpRequest, refusal: HttpResponse | None = None) -> bool:
        """
        Authorize *request*; after a *refusal*, as its answer demands: ``False`` if that is nothing.

        Raises:
            AzureError: no token can be had.
        """
        signed = SdkResponse(request, Answered(0, {}, b"", 0))
        answers = [refusal, signed] if refusal else [signed]
        return self._pipeline.run(request, answers=answers).http_response is signed

    def send(self, request: HttpRequest, **options: Any) -> HttpResponse:  # noqa: ARG002
        answer: HttpResponse = options["answers"].pop(0)
        return answer


class SdkResponse(HttpResponse):
    """An answer as the SDK's policies read one."""

    def __init__(self, request: HttpRequest, answer: Answered) -> None:
        super().__init__(request, self)
        self.status_code = answer.status
        self.headers = case_insensitive_dict(answer.headers)
        self._body = answer.body

    def body(self) -> bytes:
        return self._body
