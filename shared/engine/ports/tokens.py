"""Declares the port to Entra ID: verifying tokens of callers."""

from __future__ import annotations

from typing import Protocol

from shared.events.token_claims import Claims, TokenFault


class TokenVerifier(Protocol):
    """Verifies access tokens of Entra ID for one audience of the app."""

    def verify(self, token: str) -> Claims | TokenFault:
        """
        Return the claims of *token*, or why it is rejected; fetching keys may take ten seconds.

        Raises:
            SigningKeysUnavailable: the key that signed it can't be fetched now.
        """
