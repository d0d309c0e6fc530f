"""The token endpoint of Entra ID, as far as applications use it, on this machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from tests.integration.push.authority import Authority
from tests.serving import serving

TENANT = "11111111-2222-3333-4444-555555555555"


class Entra(ThreadingHTTPServer):
    """
    Answers as the token endpoint of Entra ID does; *refusal* is what it refuses with.

    Tokens are valid for *seconds*. Who is not refused for good is asked to come back in a minute.
    """

    daemon_threads = True

    def __init__(self, authority: Authority) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.socket = authority.server("127.0.0.1").wrap_socket(self.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        self.asked: list[dict[str, str]] = []
        self.refusal: str | None = None
        self.status = 401  # of a refusal
        self.seconds = 3600


class _Handler(BaseHTTPRequestHandler):
    server: Entra

    def do_GET(self) -> None:
        base = f"{self.server.url}/{TENANT}"
        assert self.path == f"/{TENANT}/v2.0/.well-known/openid-configuration"
        self._reply(
            200,
            {
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "issuer": f"{base}/v2.0",
            },
        )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append({name: value[0] for name, value in parse_qs(body).items()})
        if self.server.refusal:
            error = {"error": "invalid_client", "error_description": self.server.refusal}
            self._reply(self.server.status, error)
            return
        number = len(self.server.asked)
        self._reply(
            200,
            {
                "token_type": "Bearer",
                "expires_in": self.server.seconds,
                "access_token": f"token-{number}",
            },
        )

    def _reply(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        if status not in (200, 401):
            self.send_header("Retry-After", "60")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def running_entra(authority: Authority) -> Iterator[Entra]:
    """Run it until the block ends, with a certificate of *authority*."""
    with serving(Entra(authority)) as server:
        yield server
