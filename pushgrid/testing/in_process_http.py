"""Answers requests to a deployment in memory in process, whichever client of `requests` sends."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPResponse

if TYPE_CHECKING:
    from pushgrid.testing.deployment import Pushgrid


class _InProcess(BaseAdapter):
    """Sends requests to *app*; no connection is made."""

    def __init__(self, app: Pushgrid) -> None:
        super().__init__()
        self._app = app

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
        body = request.body or b""
        sent = body.encode() if isinstance(body, str) else bytes(body)
        answer = self._app.http(
            request.method or "GET", request.url or "", dict(request.headers), sent
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
def requests_answered_by(app: Pushgrid) -> Iterator[None]:
    """
    Answer every request to *app*'s URL that goes through `requests`, as those of Azure's SDKs do.

    All other requests are sent as ever.
    """
    other_adapter = requests.Session.get_adapter

    def get_adapter(self: requests.Session, url: str) -> BaseAdapter:
        return _InProcess(app) if url.startswith(f"{app.url}/") else other_adapter(self, url)

    with patch.object(requests.Session, "get_adapter", get_adapter):
        yield
