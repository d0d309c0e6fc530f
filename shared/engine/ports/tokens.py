"""Declares ports to Entra ID: verifying tokens of callers, and fetching tokens for webhooks."""

from __future__ import annotations

from typing import Protocol

from shared.events.token_claims import Claims, TokenFault
from shared.http import Audience


class TokenVerifier(Protocol):
    """Verifies access tokens of Entra ID for one audience of the app."""

    def verify(self, token: str) -> Claims | TokenFault:
        """
        Return the claims of *token*, or why it is rejected; fetching keys may take ten seconds.

        Raises:
            SigningKeysUnavailable: the key that signed it can't be fetched now.
        """


class Tokens(Protocol):
    """Fetches tokens for endpoints that Entra ID protects; ``Pusher`` adds them to requests."""

    async def fetch(self, audience: Audience) -> None:
        """Fetch and keep a token, so that no push waits for it; never raises."""
