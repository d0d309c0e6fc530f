"""The way out to subscribers, and what is never reached on it."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from shared.adapters.entra.webhook_tokens import TokenPusher, WebhookTokens, credential_for
from shared.adapters.http.outbound_guard import OutboundGuard
from shared.adapters.http.push import HttpPusher
from shared.subscriptions.endpoint_rules import host_addresses
from shared.wiring.once import once
from shared.wiring.process import CLOCK, settings


@once
def pusher() -> TokenPusher:
    """Return what sends requests to endpoints, with tokens where they want them."""
    return TokenPusher(bare_pusher(), tokens())


@once
def tokens() -> WebhookTokens:
    credential = None
    if settings().has_webhook_identity:
        credential = credential_for(
            settings().webhook_client_id or "",
            secret=settings().webhook_client_secret,
            certificate=settings().webhook_certificate,
            authority=settings().webhook_authority,
        )
    return WebhookTokens(credential, CLOCK)


@once
def bare_pusher() -> HttpPusher:
    guard = OutboundGuard(
        allow_http=settings().allow_http,
        allowed_networks=settings().allowed_networks,
        own_addresses=own_addresses(),
        identity_endpoints=_identity_endpoints(),
    )
    return HttpPusher(guard)


def own_addresses() -> frozenset[tuple[str, int]]:
    """Return under which hosts and ports this app is known to be reached."""
    given_by_azure = f"https://{os.environ.get('WEBSITE_HOSTNAME', '')}"
    return host_addresses(given_by_azure) | host_addresses(settings().public_url or "")


def _identity_endpoints() -> list[tuple[str, int]]:
    """Return where the platform hands out tokens to this app: nothing is ever sent there."""
    urls = [urlsplit(os.environ.get(name, "")) for name in ("IDENTITY_ENDPOINT", "MSI_ENDPOINT")]
    return [(url.hostname, url.port or 80) for url in urls if url.hostname]
