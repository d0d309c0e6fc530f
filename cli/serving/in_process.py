"""Calls the API of a deployment that this process serves, without a connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import requests
from requests.structures import CaseInsensitiveDict

from cli.deployment import Deployment
from server.served_app import ServedApp
from shared.http import HttpAnswer, HttpRequest, query_of


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcess(Deployment):
    """The deployment that *answer*, called with a decoded path as well, is the API of."""

    answer: Callable[[HttpRequest, str], HttpAnswer]

    def _send(self, method: str, url: str, **options: Any) -> requests.Response:
        sent = {name: options[name] for name in ("headers", "params", "json") if name in options}
        prepared = requests.Request(method, url, **sent).prepare()
        at = prepared.url or url
        body = prepared.body or b""
        request = HttpRequest(
            method=method,
            url=at,
            headers={name.lower(): str(value) for name, value in prepared.headers.items()},
            query=query_of(at),
            body=body.encode() if isinstance(body, str) else body,
        )
        path = unquote(urlsplit(at).path).removeprefix("/")
        answer = self.answer(request, path)
        found = requests.Response()
        found.status_code, found.url = answer.status, at
        found.headers = CaseInsensitiveDict(answer.headers)
        found._content = answer.body  # noqa: SLF001 - the class has no other way to be given one
        return found


def deployment_of(app: ServedApp, url: str, by: str = "") -> InProcess:
    """
    Return the deployment of *app* for an operator, called on a thread beside its event loop.

    *url* is where it is reached; *by* is recorded as who did it, else the admin key.
    """
    return InProcess(
        url=url,
        token=lambda: app.settings.admin_key or "",
        answer=lambda request, path: app.on_loop(app.answer(request, path, by)),
    )
