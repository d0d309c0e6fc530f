"""
Signs Azure CLI in with the admin key, through the part of AD FS that it uses.

Source: azure-cli 2.91.0 with its MSAL, as run; RFC 6749, sections 4.4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlsplit

from shared.arm.arm_json import answer, error_answer
from shared.engine.operations.operator_authorization import Operators
from shared.errors import NotFound
from shared.http import HttpAnswer, HttpRequest

_LIFETIME = 3600  # seconds until `az` asks again; the key itself does not expire
_MAX_BODY = 8192  # bytes
_ABSENT = "No step of signing in has this path and method."
_OFF = "Azure CLI can't sign in with the admin key here, because PUSHGRID_AZ_LOGIN is not true."


@dataclass(frozen=True, slots=True, kw_only=True)
class AzLogin:
    """Tells Azure CLI where to sign in, and gives it a key as a token for the same key."""

    is_on: bool  # else every answer is 404
    operators: Operators
    public_url: str | None  # ``None``: taken from each request

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Answer *request*, which needs no authorization."""
        url = urlsplit(request.url)
        base = self.public_url or f"{url.scheme}://{url.netloc}"
        match (self.is_on, request.method.upper(), url.path.strip("/").casefold()):
            case (True, "GET", "metadata/endpoints"):
                found = _metadata(base)
            case (True, "GET", "adfs/.well-known/openid-configuration"):
                found = _configuration(base)
            case (True, "POST", "adfs/oauth2/token"):
                found = self._token(request.body)
            case _:
                found = error_answer(NotFound(_ABSENT if self.is_on else _OFF))
        return replace(found, headers={**found.headers, "Cache-Control": "no-store"})

    def _token(self, body: bytes) -> HttpAnswer:
        form = dict(parse_qsl(body[:_MAX_BODY].decode("utf-8", "replace")))
        if form.get("grant_type") != "client_credentials":
            return _refusal(400, "unsupported_grant_type", "Only client_credentials is supported.")
        secret = form.get("client_secret", "")
        if self.operators.with_key(secret) is None:
            fault = "The client secret is neither an admin key nor the reader's key."
            return _refusal(401, "invalid_client", fault)
        return answer(
            200, {"token_type": "Bearer", "expires_in": _LIFETIME, "access_token": secret}
        )


def _metadata(base: str) -> HttpAnswer:
    return answer(
        200,
        {
            "name": "Pushgrid",
            "resourceManager": base,
            "authentication": {"loginEndpoint": f"{base}/adfs", "audiences": [base]},
            "suffixes": {},
        },
    )


def _configuration(base: str) -> HttpAnswer:
    return answer(
        200,
        {
            "issuer": f"{base}/adfs",
            "authorization_endpoint": f"{base}/adfs/oauth2/authorize",
            "token_endpoint": f"{base}/adfs/oauth2/token",
        },
    )


def _refusal(status: int, code: str, description: str) -> HttpAnswer:
    return answer(status, {"error": code, "error_description": description})
