"""Verifies access tokens of Entra ID: JSON Web Tokens (RFC 7519), with PyJWT."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from shared.adapters.entra.signing_keys import ALGORITHM, SigningKeys
from shared.events.token_claims import Claims, TokenFault

_LEEWAY = timedelta(minutes=5)  # for clocks that differ
_MAX_LENGTH = 32 * 1024  # a token with hundreds of groups is smaller
_REQUIRED = ["iss", "aud", "exp"]
_FAULTS = {  # what PyJWT raises, by name, since it is not imported yet; the rest can't be read
    "ExpiredSignatureError": TokenFault.EXPIRED,
    "ImmatureSignatureError": TokenFault.NOT_YET_VALID,
    "InvalidAudienceError": TokenFault.AUDIENCE,
    "InvalidIssuerError": TokenFault.ISSUER,
    "InvalidKeyError": TokenFault.SIGNATURE,
    "InvalidSignatureError": TokenFault.SIGNATURE,
    "MissingRequiredClaimError": TokenFault.INCOMPLETE,
}


class EntraTokenVerifier:
    """
    TokenVerifier for tokens of one of *issuers* that are for one of *audiences*.

    Claims are read only after the signature; nothing in a token chooses how it is verified,
    but for the id of a key that the issuer has published.
    """

    def __init__(
        self, keys: SigningKeys, *, issuers: Sequence[str], audiences: Sequence[str]
    ) -> None:
        self._keys = keys
        self._issuers = tuple(issuers)
        self._audiences = tuple(audiences)

    def verify(self, token: str) -> Claims | TokenFault:
        """Return the claims of *token*, or the fault for which it is refused."""
        if len(token) > _MAX_LENGTH:
            return TokenFault.UNREADABLE
        from jwt import PyJWTError  # when the first token comes: cold starts

        try:
            return Claims.from_token(self._decode(token))
        except (PyJWTError, ValueError) as error:
            return _FAULTS.get(type(error).__name__, TokenFault.UNREADABLE)

    def _decode(self, token: str) -> dict[str, Any]:
        import jwt

        header = jwt.get_unverified_header(token)
        if header.get("alg") != ALGORITHM or "kid" not in header:
            raise jwt.InvalidKeyError  # before any key is asked for
        key = self._keys.key(header["kid"])
        if key is None:
            raise jwt.InvalidKeyError
        return jwt.decode(
            token,
            key,
            algorithms=[ALGORITHM],
            issuer=self._issuers,
            audience=self._audiences,
            leeway=_LEEWAY,
            options={"require": _REQUIRED, "enforce_minimum_key_length": True},
        )
