"""Authorizes publish requests: gathers the facts for the rules in ``events``."""

from __future__ import annotations

from dataclasses import dataclass

from shared.clock import Clock
from shared.engine.ports import TokenVerifier
from shared.errors import Forbidden
from shared.events.authorization import (
    authorize,
    bearer_token,
    check_network,
    client_address,
)
from shared.events.topic import Topic
from shared.http import HttpRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherAuthorization:
    """The first check of every publish request, for every kind of topic."""

    clock: Clock
    tokens: TokenVerifier | None = None  # ``None``: Entra ID tokens are not accepted
    # In lower case; ``None``: the front end does not pass the client's address.
    client_ip_header: str | None = None
    public_url: str | None = None  # of the app, where it differs from that of requests

    def check(self, request: HttpRequest, topic: Topic) -> None:
        """
        Check that the request may publish to *topic*.

        Raises:
            Forbidden: it may not, or the topic takes no keys and tokens are not configured.
            AppError: it may not, for another reason.
            SigningKeysUnavailable: the token can't be verified now.
        """
        check_network(topic, client_address(request, self.client_ip_header))
        if topic.disable_local_auth and self.tokens is None:
            raise Forbidden(
                f"Publishing to Topic {topic.name} is rejected because local authentication is"
                " disabled, and access tokens are not accepted here either: the app's setting"
                " PUSHGRID_ENTRA_TENANT is not set."
            )
        token = bearer_token(request)
        bearer = self.tokens.verify(token) if self.tokens and token is not None else None
        authorize(request, topic, self.clock.now(), bearer, self.public_url)
