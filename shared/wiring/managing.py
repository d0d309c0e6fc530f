"""The management API."""

from __future__ import annotations

import base64
import secrets
import time

from shared.adapters.directory import InvalidatingStore
from shared.adapters.http.push import ParallelNotifier
from shared.arm.deployment import Deployment, profile_limits
from shared.delivery.profiles import PROFILES
from shared.engine.manage.api import Manage
from shared.wiring import authorization, storage
from shared.wiring.once import once
from shared.wiring.outbound import own_addresses, pusher
from shared.wiring.process import CLOCK, backoff, new_id, settings
from shared.wiring.setting_lines import tell_settings


@once
def manage() -> Manage:
    tell_settings()
    return Manage(
        resources=InvalidatingStore(storage.tables(), storage.directory()),
        counts=storage.counts(),
        pusher=pusher(),
        notifier=ParallelNotifier(pusher()),
        clock=CLOCK,
        deployment=Deployment(
            account=storage.account().account_name,
            profiles={name: profile_limits(profile) for name, profile in PROFILES.items()},
            default_profile=settings().profile,
            allow_http=settings().allow_http,
            has_webhook_identity=settings().has_webhook_identity,
            has_client_ip_header=settings().client_ip_header is not None,
            own_addresses=own_addresses(),
        ),
        admin_key=settings().admin_key,
        tokens=authorization.operators_tokens(),
        public_url=settings().public_url,
        new_key=_new_key,
        new_id=new_id,
        sleep=time.sleep,
        backoff=backoff,
    )


def _new_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode("ascii")
