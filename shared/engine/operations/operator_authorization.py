"""Authorizes operators by the admin key or by an Entra ID token with the role for it."""

from __future__ import annotations

import hmac

from shared.engine.ports import TokenVerifier
from shared.errors import Forbidden, Unauthenticated
from shared.events.token_claims import Role, TokenFault


def check_operator(
    authorization: str | None, admin_key: str | None, tokens: TokenVerifier | None
) -> str:
    """
    Authorize the operator and return who it is; with neither a key nor Entra ID, nobody is.

    Raises:
        Unauthenticated: the credential is missing or wrong.
        Forbidden: the token is valid but lacks the role.
        SigningKeysUnavailable: the token can't be verified now.
    """
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    if not admin_key and tokens is None:
        reason = "The management API is closed: PUSHGRID_ADMIN_KEY is not set."
    elif not authorization:
        reason = "Authentication failed. The 'Authorization' header is missing."
    elif scheme.lower() != "bearer":
        reason = "Authentication failed. The 'Authorization' header is not a Bearer token."
    elif is_admin_key(token, admin_key):
        return "the admin key"
    elif tokens is None:
        reason = "Authentication failed. The token is not the admin key."
    else:
        return f"Entra ID principal {_authorized(tokens, token)}"
    raise Unauthenticated(reason, detail_code="AuthenticationFailed")


def is_admin_key(text: str, admin_key: str | None) -> bool:
    """Tell in constant time whether *text* is the admin key; nothing is if there is none."""
    return bool(admin_key) and hmac.compare_digest(_octets(text), _octets(admin_key or ""))


def _authorized(tokens: TokenVerifier, token: str) -> str:
    """Return the principal of a token that has the role."""
    bearer = tokens.verify(token)
    if isinstance(bearer, TokenFault):
        is_old = bearer is TokenFault.EXPIRED
        code = "ExpiredAuthenticationToken" if is_old else "InvalidAuthenticationToken"
        raise Unauthenticated(bearer, detail_code=code)
    if not bearer.grant(Role.CONTRIBUTOR):
        message = (
            f"The client '{bearer.principal}' does not have authorization to perform this action:"
            f" its access token has no role '{Role.CONTRIBUTOR}'."
        )
        raise Forbidden(message, detail_code="AuthorizationFailed")
    return bearer.principal


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
