"""The token endpoint of Entra ID, as far as applications use it, on this machine."""

from __future__ import annotations

from urllib.parse import parse_qsl

from tests.integration.push.authority import Authority
from tests.integration.push.scripted import Server, answering_json

TENANT = "11111111-2222-3333-4444-555555555555"


class Entra(Server):
    """
    Answers as the token endpoint of Entra ID does; *refusal* is what it refuses with.

    Tokens are valid for *seconds*.
    """

    def __init__(self, authority: Authority) -> None:
        super().__init__(answering_json(self._reply), authority.server("127.0.0.1"))
        self.url = f"https://127.0.0.1:{self.port}"
        self.asked: list[dict[str, str]] = []
        self.refusal: str | None = None
        self.status = 401  # of a refusal
        self.seconds = 3600

    def _reply(self, head: str, body: bytes) -> tuple[int, object]:
        if head.startswith("GET "):
            base = f"{self.url}/{TENANT}"
            assert head.startswith(f"GET /{TENANT}/v2.0/.well-known/openid-configuration ")
            return 200, {
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "issuer": f"{base}/v2.0",
            }
        self.asked.append(dict(parse_qsl(body.decode())))
        if self.refusal:
            return self.status, {"error": "invalid_client", "error_description": self.refusal}
        return 200, {
            "token_type": "Bearer",
            "expires_in": self.seconds,
            "access_token": f"token-{len(self.asked)}",
        }
