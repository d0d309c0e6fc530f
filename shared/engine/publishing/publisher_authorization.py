"""Who may publish, and from where: gathers what the rules in ``events`` decide on."""

from __future__ import annotations

from dataclasses import dataclass

from shared.clock import Clock
from shared.engine.ports import TokenVerifier
from shared.errors import Forbidden
from shared.events.authorization import authorize, bearer_token
from shared.events.client_address import check_network, client_address
from shared.events.topic import Topic
from shared.http import HttpRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherAccess:
    """
    The first check of every publish request, whatever kind of topic it is for.

    *tokens* ``None``: nobody publishes with Entra ID. *client_ip_header* is the header, in lower
    case, in which the front end tells the client's address; ``None``: it doesn't. *public_url* is
    where publishers find the app, if it isn't what requests say.
    """

    clock: Clock
    tokens: TokenVerifier | None = None
    client_ip_header: str | None = None
    public_url: str | None = None

    def check(self, request: HttpRequest, topic: Topic) -> None:
        """
        Let the request pass if it may publish to *topic*.

        Raises:
            Forbidden: it may not, or nobody may: the topic takes no keys, and we read no tokens.
            AppError: it may not, for another reason.
            SigningKeysUnavailable: that can't be said now.
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
