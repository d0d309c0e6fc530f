"""Who calls us."""

from __future__ import annotations

from typing import Protocol

from shared.events.token_claims import Claims, TokenFault


class TokenVerifier(Protocol):
    """Reads access tokens of Entra ID that are meant for one part of us."""

    def verify(self, token: str) -> Claims | TokenFault:
        """
        Say what *token* claims, or why it is not believed; a fetch of keys may take ten seconds.

        Raises:
            SigningKeysUnavailable: what it is signed with can't be known now.
        """
