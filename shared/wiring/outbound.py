"""Makes what sends requests to endpoints, and the guard that they go through."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import certifi

from shared import telemetry
from shared.adapters.entra.webhook_tokens import (
    CredentialFor,
    TokenPusher,
    WebhookTokens,
    credential_for,
)
from shared.adapters.http.http_pusher import HttpPusher
from shared.adapters.http.openings import Openings
from shared.adapters.http.outbound_guard import OutboundGuard
from shared.adapters.http.pool import MAX_IDLE, Pool
from shared.adapters.http.resolver import NameServers
from shared.adapters.http.tls import TlsMaterial, client_tls
from shared.clock import Clock
from shared.engine.ports import Pusher, Threads
from shared.once import once
from shared.settings import Settings
from shared.subscriptions.destination import host_addresses
from shared.wiring.process import descriptors

if TYPE_CHECKING:
    from shared.adapters.entra.access_tokens import EntraTokenVerifier, SigningKeys
    from shared.adapters.otel import OtelTracing

ENDPOINTS_OF_SPANS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_TOKEN_THREADS = 4


class SystemOutbound:
    """
    The outbound of a process: to webhooks, with the tokens that they need.

    *awake* tells seconds, by an `AwakeClock`. *also_to_queues* makes of the sender to webhooks one
    that sends to storage queues as well.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        threads: Threads,
        awake: Callable[[], float],
        also_to_queues: Callable[[Pusher], Pusher] = lambda webhooks: webhooks,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._threads = threads
        self._awake = awake
        self._also_to_queues = also_to_queues
        self._descriptors = descriptors()
        self.most = self._descriptors // 2
        self.app_addresses = _app_addresses(settings)

    @once
    def pusher(self) -> Pusher:
        off_loop = self._threads.pool("tokens", _TOKEN_THREADS)
        tokens = WebhookTokens(_credential(self._settings), self._clock, off_loop)
        return self._also_to_queues(TokenPusher(self.http, tokens))

    @once
    def http(self) -> HttpPusher:
        return http_pusher(self._settings, self.app_addresses, self._descriptors, self._awake)

    def reserve_connection(self, url: str, again: Callable[[], None], /) -> bool:
        return self.http.reserve_connection(url, again)

    def stop(self) -> None:
        self.http.stop()

    @once
    def tracing(self) -> OtelTracing | None:
        return find_tracing()

    def tokens(self, audiences: Sequence[str]) -> EntraTokenVerifier:
        """Return the verifier for *audiences*, which clients write with and without a slash."""
        from shared.adapters.entra.access_tokens import EntraTokenVerifier

        either = [form for each in audiences for form in (each.rstrip("/"), f"{each.rstrip('/')}/")]
        issuers = self._settings.entra_issuer
        return EntraTokenVerifier(self._signing_keys, issuers=issuers, audiences=either)

    @once
    def _signing_keys(self) -> SigningKeys:
        from shared.adapters.entra.access_tokens import SigningKeys

        return SigningKeys(self._settings.entra_jwks_url or "", lambda: self.pusher, self._threads)


def http_pusher(
    settings: Settings,
    app_addresses: frozenset[tuple[str, int]],
    descriptors: int,
    awake: Callable[[], float],
) -> HttpPusher:
    """Return the sender to webhooks."""
    servers = settings.name_servers
    material = TlsMaterial(
        settings.ca_bundle,
        settings.client_certificate,
        settings.client_key,
        settings.client_key_password,
    )
    return HttpPusher(
        outbound_guard(settings, app_addresses),
        tls=client_tls(material),
        lookup=NameServers(servers) if servers else None,
        proxy=settings.egress_proxy,
        pool=Pool(min(MAX_IDLE, descriptors // 4), Openings(awake), awake),
    )


def outbound_guard(settings: Settings, app_addresses: frozenset[tuple[str, int]]) -> OutboundGuard:
    """Return what refuses the addresses that no webhook may have."""
    return OutboundGuard(
        allow_http=settings.allow_http,
        allowed_networks=settings.allowed_networks,
        app_addresses=app_addresses,
        identity_endpoints=_identity_endpoints(),
    )


def storage_pusher(awake: Callable[[], float]) -> HttpPusher:
    """Return the sender of requests to storage, at any address, trusting what its SDKs trust."""
    everywhere = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    guard = OutboundGuard(allow_http=True, allowed_networks=everywhere)
    trusted = client_tls()
    bundle = os.environ.get("REQUESTS_CA_BUNDLE") or certifi.where()
    trusted.load_verify_locations(**{"capath" if Path(bundle).is_dir() else "cafile": bundle})
    # A request to storage has a time of its own, and no wait outside it.
    pool = Pool(openings=Openings(awake, is_bounded=False), clock=awake)
    return HttpPusher(guard, tls=trusted, pool=pool)


def find_tracing() -> OtelTracing | None:
    """
    Return what makes spans, where an endpoint for them is set and the extra is installed.

    ``None``: nobody wants any, and nothing was imported.
    """
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_off or not any(os.environ.get(name, "").strip() for name in ENDPOINTS_OF_SPANS):
        return None
    try:
        from shared.adapters.otel import OtelTracing, over_otlp

        return OtelTracing(over_otlp())
    except ImportError as error:
        telemetry.warning("otel.missing", detail=f"{error}: install pushgrid[otel]")
        return None


def _credential(settings: Settings) -> CredentialFor | None:
    if not settings.has_webhook_identity:
        return None
    return credential_for(
        settings.webhook_client_id or "",
        secret=settings.webhook_client_secret,
        certificate=settings.webhook_certificate,
        authority=settings.webhook_authority,
    )


def _app_addresses(settings: Settings) -> frozenset[tuple[str, int]]:
    """Return the hosts and ports under which this app is reached."""
    given_by_azure = f"https://{os.environ.get('WEBSITE_HOSTNAME', '')}"
    return host_addresses(given_by_azure) | host_addresses(settings.public_url or "")


def _identity_endpoints() -> list[tuple[str, int]]:
    """Return where the platform issues tokens to this app: the guard always refuses it."""
    urls = [urlsplit(os.environ.get(name, "")) for name in ("IDENTITY_ENDPOINT", "MSI_ENDPOINT")]
    return [(url.hostname, url.port or 80) for url in urls if url.hostname]
