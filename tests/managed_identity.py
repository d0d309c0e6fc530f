"""
What an app finds on Azure instead of a secret: an identity endpoint, and a storage that knows it.

The endpoint is App Service's own, on loopback, so the real ``ManagedIdentityCredential`` asks it.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from devhost.azurite import Azurite, running_azurite
from tests.integration.push.authority import Authority
from tests.serving import serving
from tests.tokens import OLD_ISSUER, a_token

CLIENT = "77777777-8888-9999-aaaa-bbbbbbbbbbbb"
STORAGE_AUDIENCE = "https://storage.azure.com"
_HEADER = "the-secret-of-this-instance"
_VERSION = "2019-08-01"


class IdentityEndpoint(ThreadingHTTPServer):
    """
    Gives tokens for the user-assigned identity `CLIENT`; *asked* are the queries so far.

    While *broken* it answers 500 with *retry_after*, while *hanging* not at all. *claims* change
    the tokens to come.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, str]] = []
        self.broken = False
        self.retry_after = ""
        self.hanging = False
        self.claims: dict[str, object] = {}

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables by which App Service tells an app of it."""
        url = f"http://127.0.0.1:{self.server_address[1]}/msi/token"
        return {"IDENTITY_ENDPOINT": url, "IDENTITY_HEADER": _HEADER}


class _Handler(BaseHTTPRequestHandler):
    server: IdentityEndpoint

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.server.asked.append(query)
        while self.server.hanging:
            time.sleep(0.1)
        if self.server.broken:
            self._reply(HTTPStatus.INTERNAL_SERVER_ERROR, {})
        elif self.headers["X-IDENTITY-HEADER"] != _HEADER or query.get("api-version") != _VERSION:
            self._reply(HTTPStatus.UNAUTHORIZED, {})
        elif query.get("client_id") != CLIENT:
            self._reply(HTTPStatus.BAD_REQUEST, {"message": "No User Assigned identity found"})
        else:
            resource = query["resource"]
            claims = {"iss": OLD_ISSUER, "aud": resource, "appid": CLIENT} | self.server.claims
            document = {
                "access_token": a_token(**claims),  # type: ignore[arg-type]
                "expires_on": str(int(time.time()) + 86400),
                "resource": resource,
                "token_type": "Bearer",
                "client_id": CLIENT,
            }
            self._reply(HTTPStatus.OK, document)

    def _reply(self, status: HTTPStatus, document: Mapping[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        if self.server.retry_after and status is HTTPStatus.INTERNAL_SERVER_ERROR:
            self.send_header("Retry-After", self.server.retry_after)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        with contextlib.suppress(ConnectionError):  # who waited may have left
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


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
        serving(IdentityEndpoint()) as endpoint,
    ):
        yield SecuredStorage(azurite=azurite, endpoint=endpoint, authority=authority)
