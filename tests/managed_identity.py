"""
What an app finds on Azure instead of a secret: an identity endpoint, and a storage that knows it.

The endpoint is App Service's own, on loopback, so the real ``ManagedIdentityCredential`` asks it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from devhost.azurite import Azurite, running_azurite
from tests.integration.push.authority import Authority
from tests.integration.push.scripted import Server, answering_json
from tests.tokens import OLD_ISSUER, a_token

CLIENT = "77777777-8888-9999-aaaa-bbbbbbbbbbbb"
STORAGE_AUDIENCE = "https://storage.azure.com"
_HEADER = "the-secret-of-this-instance"
_VERSION = "2019-08-01"


class IdentityEndpoint(Server):
    """
    Gives tokens for the user-assigned identity `CLIENT`; *asked* are the queries so far.

    While *broken* it answers 500, while *hanging* not at all. *claims* change the tokens to come.
    """

    def __init__(self) -> None:
        super().__init__(answering_json(self._reply))
        self.asked: list[dict[str, str]] = []
        self.broken = False
        self.hanging = False
        self.claims: dict[str, object] = {}

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables by which App Service tells an app of it."""
        url = f"http://127.0.0.1:{self.port}/msi/token"
        return {"IDENTITY_ENDPOINT": url, "IDENTITY_HEADER": _HEADER}

    def _reply(self, head: str, _: bytes) -> tuple[int, object]:
        query = dict(parse_qsl(urlsplit(head.split()[1]).query))
        self.asked.append(query)
        while self.hanging and not self.stopped.is_set():
            time.sleep(0.1)
        if self.broken:
            return 500, {}
        is_ours = f"\r\nx-identity-header: {_HEADER}\r\n" in f"{head}\r\n".lower()
        if not is_ours or query.get("api-version") != _VERSION:
            return 401, {}
        if query.get("client_id") != CLIENT:
            return 400, {"message": "No User Assigned identity found"}
        resource = query["resource"]
        claims: dict[str, Any] = {"iss": OLD_ISSUER, "aud": resource, "appid": CLIENT}
        return 200, {
            "access_token": a_token(**claims | self.claims),
            "expires_on": str(int(time.time()) + 86400),
            "resource": resource,
            "token_type": "Bearer",
            "client_id": CLIENT,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredStorage:
    """A storage that takes tokens only over TLS, and how an app on Azure reaches it."""

    azurite: Azurite
    endpoint: IdentityEndpoint
    authority: Authority

    @property
    def settings(self) -> dict[str, str]:
        """The settings that `infra/modules/app.bicep` writes: no secret among them."""
        return {
            "AzureWebJobsStorage__blobServiceUri": f"{self.azurite.blob_url}/",
            "AzureWebJobsStorage__queueServiceUri": f"{self.azurite.queue_url}/",
            "AzureWebJobsStorage__tableServiceUri": f"{self.azurite.table_url}/",
            "AzureWebJobsStorage__credential": "managedidentity",
            "AzureWebJobsStorage__clientId": CLIENT,
        }

    @property
    def environ(self) -> dict[str, str]:
        """What the platform adds to them; and whom to trust, since no public authority signed."""
        bundle = str(self.authority.bundle)
        trust = {"REQUESTS_CA_BUNDLE": bundle, "SSL_CERT_FILE": bundle}
        return {**self.endpoint.environ, **trust}


@contextlib.contextmanager
def running_secured_storage(folder: Path) -> Iterator[SecuredStorage]:
    """Run both until the block ends; certificates are made in *folder*."""
    authority = Authority(folder)
    with (
        running_azurite(certificate=authority.issue("127.0.0.1")) as azurite,
        IdentityEndpoint() as endpoint,
    ):
        yield SecuredStorage(azurite=azurite, endpoint=endpoint, authority=authority)
