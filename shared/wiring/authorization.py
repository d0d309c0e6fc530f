"""Who may publish, and who may manage."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from shared.engine.publishing.publisher_authorization import PublisherAuthorization
from shared.wiring.once import once
from shared.wiring.process import CLOCK, settings

if TYPE_CHECKING:
    from shared.adapters.entra.access_tokens import EntraTokens
    from shared.adapters.entra.signing_keys import SigningKeys
    from shared.adapters.http.push import HttpPusher


@once
def publishers() -> PublisherAuthorization:
    return PublisherAuthorization(
        clock=CLOCK,
        tokens=_tokens(settings().entra_audience),
        client_ip_header=settings().client_ip_header,
        public_url=settings().public_url,
    )


@once
def operators_tokens() -> EntraTokens | None:
    return _tokens(settings().entra_management_audience)


def _tokens(audiences: tuple[str, ...]) -> EntraTokens | None:
    """Return what reads tokens for *audiences*: clients write those with and without a slash."""
    if not settings().has_entra:
        return None
    from shared.adapters.entra.access_tokens import EntraTokens

    either = [form for each in audiences for form in (each.rstrip("/"), f"{each.rstrip('/')}/")]
    return EntraTokens(_signing_keys(), issuers=settings().entra_issuer, audiences=either)


@once
def _signing_keys() -> SigningKeys:
    from shared.adapters.entra.signing_keys import SigningKeys

    return SigningKeys(settings().entra_jwks_url or "", _pusher, time.monotonic)


def _pusher() -> HttpPusher:
    """Return what fetches keys, at the first token: publishing needs none for anything else."""
    from shared.wiring.outbound import bare_pusher

    return bare_pusher()
