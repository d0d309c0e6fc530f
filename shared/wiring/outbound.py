"""Builds the senders of requests to endpoints, and the guard that they go through."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from shared.adapters.entra.webhook_tokens import TokenPusher, WebhookTokens, credential_for
from shared.adapters.http.outbound_guard import OutboundGuard
from shared.adapters.http.push import HttpPusher
from shared.subscriptions.endpoint_rules import host_addresses
from shared.wiring.process import CLOCK, once
from shared.wiring.settings import settings


@once
def pusher() -> TokenPusher:
    """Return the sender that adds tokens to requests that need them."""
    return TokenPusher(http_pusher(), tokens())


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
def http_pusher() -> HttpPusher:
    guard = OutboundGuard(
        allow_http=settings().allow_http,
        allowed_networks=settings().allowed_networks,
        app_addresses=app_addresses(),
        identity_endpoints=_identity_endpoints(),
    )
    return HttpPusher(guard)


def app_addresses() -> frozenset[tuple[str, int]]:
    """Return the hosts and ports under which this app is reached."""
    given_by_azure = f"https://{os.environ.get('WEBSITE_HOSTNAME', '')}"
    return host_addresses(given_by_azure) | host_addresses(settings().public_url or "")


def _identity_endpoints() -> list[tuple[str, int]]:
    """Return where the platform issues tokens to this app: the guard always refuses it."""
    urls = [urlsplit(os.environ.get(name, "")) for name in ("IDENTITY_ENDPOINT", "MSI_ENDPOINT")]
    return [(url.hostname, url.port or 80) for url in urls if url.hostname]
