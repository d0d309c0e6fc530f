"""Answers requests to a deployment in memory in process, whichever client of `requests` sends."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPResponse

from shared.http import HttpAnswer

# From a method, a path with its query, headers and a body to an answer.
Answer = Callable[[str, str, Mapping[str, str], bytes], HttpAnswer]


class _InProcess(BaseAdapter):
    """Gives requests to *answer*; no connection is made."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer

    def send(  # type: ignore[override]
        self, request: requests.PreparedRequest, **_: Any
    ) -> requests.Response:
        body = request.body or b""
        sent = body.encode() if isinstance(body, str) else bytes(body)
        answer = self._answer(
            request.method or "GET", request.path_url, dict(request.headers), sent
        )
        response = requests.Response()
        response.status_code = answer.status
        response.headers = CaseInsensitiveDict(answer.headers)
        response.raw = HTTPResponse(
            io.BytesIO(answer.body), answer.headers, answer.status, preload_content=False
        )
        response.request, response.url = request, request.url or ""
        return response

    def close(self) -> None:
        """Do nothing: there is no connection."""


@contextmanager
def requests_answered(base: str, answer: Answer) -> Iterator[None]:
    """
    Answer requests below *base* that go through `requests`, as those of Azure's SDKs do.

    All other requests are sent as ever.
    """
    other_adapter = requests.Session.get_adapter

    def get_adapter(self: requests.Session, url: str) -> BaseAdapter:
        return _InProcess(answer) if url.startswith(f"{base}/") else other_adapter(self, url)

    with patch.object(requests.Session, "get_adapter", get_adapter):
        yield
