"""Composes the management API and its validation links."""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING

from shared.engine.caching.cache import PERIODS
from shared.engine.caching.resource_cache import InvalidatingStore
from shared.engine.manage.endpoint_validation import Validate
from shared.wiring import storage
from shared.wiring.entra import operators
from shared.wiring.process import CLOCK, backoff, new_id, once, threads
from shared.wiring.settings import log_doubtful_settings, settings

if TYPE_CHECKING:
    from shared.engine.manage.api import Manage
    from shared.engine.manage.az_login import AzLogin


@once
def validate() -> Validate:
    return Validate(resources=_resources(), clock=CLOCK, backoff=backoff)


@once
def az_login() -> AzLogin:
    from shared.engine.manage.az_login import AzLogin

    return AzLogin(
        is_on=settings().az_login,
        operators=operators(),
        public_url=settings().public_url,
    )


@once
def manage() -> Manage:
    # Validation links need none of these: cold starts.
    from shared.arm.deployment_capabilities import DeploymentCapabilities
    from shared.delivery.profiles import PROFILES
    from shared.engine.manage.api import Manage
    from shared.engine.manage.route_table import RouteTable
    from shared.wiring.outbound import app_addresses, pusher

    log_doubtful_settings()
    table = RouteTable(
        resources=_resources(),
        counts=storage.counts(),
        attempts=storage.attempts(),
        dead_letters=storage.dead_letters(),
        health=storage.health(),
        pusher=pusher(),
        threads=threads(),
        clock=CLOCK,
        deployment=DeploymentCapabilities(
            account=storage.account().account_name,
            profiles=PROFILES,
            default_profile=settings().profile,
            dead_letter_accounts=frozenset(settings().deadletter_accounts),
            queue_accounts=settings().queue_accounts,
            allow_http=settings().allow_http,
            has_webhook_identity=settings().has_webhook_identity,
            has_client_ip_header=settings().client_ip_header is not None,
            app_addresses=app_addresses(),
        ),
        terms=storage.deployment_terms(),
        known_for=PERIODS * settings().cache_for,
        metrics=storage.metrics(),
        replays=storage.replay_jobs(),
        new_key=_new_key,
        new_id=new_id,
        keeps_answers=settings().endpoint_answers,
        backoff=backoff,
    )
    return Manage(
        routes=table.routes(),
        operators=operators(),
        public_url=settings().public_url,
        has_local_shortcuts=settings().local_shortcuts,
        new_id=new_id,
    )


def _resources() -> InvalidatingStore:
    return InvalidatingStore(storage.resources(), storage.resource_cache())


def _new_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode("ascii")
