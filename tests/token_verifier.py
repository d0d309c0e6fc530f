"""The reader of tokens in memory."""

from __future__ import annotations

from shared.errors import SigningKeysUnavailable
from shared.events.token_claims import Claims, TokenFault


class Tokens:
    """TokenVerifier that believes what it is told to; while *down* it can't say."""

    def __init__(self, **verdicts: Claims | TokenFault) -> None:
        self._verdicts = verdicts
        self.asked: list[str] = []
        self.down = False

    def verify(self, token: str) -> Claims | TokenFault:
        self.asked.append(token)
        if self.down:
            raise SigningKeysUnavailable
        return self._verdicts.get(token, TokenFault.UNREADABLE)
