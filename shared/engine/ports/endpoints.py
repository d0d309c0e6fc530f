"""Declares ports to endpoints, to the health that all processes share, and to Entra ID."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple, Protocol

from shared.delivery.health.endpoint_health import Health
from shared.events.token_claims import Claims, TokenFault
from shared.http import Exchange, LateAnswerHandler, OutboundRequest


class Pusher(Protocol):
    """Sends requests to endpoints, through the outbound guard, on the app's event loop."""

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        """
        Send and wait for the response headers for at most *timeout*. Never raises.

        With *late* a request that was sent but not answered in time is ``TIMED_OUT`` as well, but
        its connection is kept, and a later answer is reported. That is best effort: there is a
        limit to the connections that wait.
        """


class ReserveConnection(Protocol):
    """Reserves, on the app's event loop, a connection for the next request to an endpoint."""

    def __call__(self, url: str, again: Callable[[], None], /) -> bool:
        """
        Promise a connection to a request that is sent to *url* next.

        ``False``: too many are being opened to its host and port. *again*, which may be called at
        any time, is called when it is worth asking again.
        """


class StoredHealth(NamedTuple):
    """An endpoint's stored health."""

    health: Health
    etag: str  # changes with every write
    is_bounded: bool = False  # the row has a time that no rule could put so far ahead


class TokenVerifier(Protocol):
    """Verifies access tokens of Entra ID for one audience of the app."""

    def verify(self, token: str) -> Claims | TokenFault:
        """
        Return the claims of *token*, or why it is rejected; fetching keys may take ten seconds.

        Raises:
            SigningKeysUnavailable: the key that signed it can't be fetched now.
        """
