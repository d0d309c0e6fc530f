"""What lets Azure's management clients in: the admin key in place of a token."""

from __future__ import annotations

from typing import Any

from azure.core.credentials import AccessToken
from azure.core.pipeline import PipelineRequest
from azure.core.pipeline.policies import SansIOHTTPPolicy

from testbed.arm import ADMIN_KEY


class Key(SansIOHTTPPolicy[Any, Any]):
    """Sends the admin key over http too, which the clients' own policy refuses to do."""

    def on_request(self, request: PipelineRequest[Any]) -> None:
        request.http_request.headers["Authorization"] = f"Bearer {ADMIN_KEY}"


class Credential:
    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        del scopes, options
        return AccessToken(ADMIN_KEY, 2**31)
