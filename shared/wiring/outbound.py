"""Builds the senders of requests to endpoints, and the guard that they go through."""

from __future__ import annotations

import os
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import certifi

from shared.adapters.entra.webhook_tokens import TokenPusher, WebhookTokens, credential_for
from shared.adapters.http.http_pusher import HttpPusher
from shared.adapters.http.openings import Openings
from shared.adapters.http.outbound_guard import OutboundGuard
from shared.adapters.http.pool import MAX_IDLE, Pool
from shared.adapters.http.resolver import NameServers
from shared.adapters.http.tls import TlsMaterial, client_tls
from shared.adapters.storage.queue_pusher import QueuePusher
from shared.subscriptions.destination import host_addresses
from shared.wiring.process import CLOCK, descriptors, once, threads
from shared.wiring.settings import settings

_TOKEN_THREADS = 4


@once
def pusher() -> QueuePusher:
    """Return the sender to webhooks, with the tokens that they need, and into storage queues."""
    from shared.wiring.storage import message_puts, on_storage  # which are built on this module

    return QueuePusher(TokenPusher(http_pusher(), tokens()), on_storage(), message_puts())


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
    return WebhookTokens(credential, CLOCK, threads().pool("tokens", _TOKEN_THREADS))


@once
def http_pusher() -> HttpPusher:
    guard = OutboundGuard(
        allow_http=settings().allow_http,
        allowed_networks=settings().allowed_networks,
        app_addresses=app_addresses(),
        identity_endpoints=_identity_endpoints(),
    )
    servers = settings().name_servers
    return HttpPusher(
        guard,
        tls=client_tls(_tls_material()),
        lookup=NameServers(servers) if servers else None,
        proxy=settings().egress_proxy,
        pool=Pool(min(MAX_IDLE, descriptors() // 4)),
    )


def storage_pusher() -> HttpPusher:
    """Return the sender of requests to storage, at any address, trusting what its SDKs trust."""
    everywhere = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    guard = OutboundGuard(allow_http=True, allowed_networks=everywhere)
    trusted = client_tls()
    bundle = os.environ.get("REQUESTS_CA_BUNDLE") or certifi.where()
    trusted.load_verify_locations(**{"capath" if Path(bundle).is_dir() else "cafile": bundle})
    # A request to storage has a time of its own, and no wait outside it.
    return HttpPusher(guard, tls=trusted, pool=Pool(openings=Openings(is_bounded=False)))


def _tls_material() -> TlsMaterial:
    found = settings()
    return TlsMaterial(
        found.ca_bundle, found.client_certificate, found.client_key, found.client_key_password
    )


def app_addresses() -> frozenset[tuple[str, int]]:
    """Return the hosts and ports under which this app is reached."""
    given_by_azure = f"https://{os.environ.get('WEBSITE_HOSTNAME', '')}"
    return host_addresses(given_by_azure) | host_addresses(settings().public_url or "")


def _identity_endpoints() -> list[tuple[str, int]]:
    """Return where the platform issues tokens to this app: the guard always refuses it."""
    urls = [urlsplit(os.environ.get(name, "")) for name in ("IDENTITY_ENDPOINT", "MSI_ENDPOINT")]
    return [(url.hostname, url.port or 80) for url in urls if url.hostname]
