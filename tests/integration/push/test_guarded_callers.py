"""Everything that is sent to endpoints passes the outbound guard, whoever sends it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.adapters.entra.webhook_tokens import TokenPusher, WebhookTokens
from shared.adapters.http.notifier import ParallelNotifier
from shared.adapters.http.outbound_guard import OutboundGuard
from shared.http import Failure
from shared.subscriptions.handshake import build_challenge
from shared.subscriptions.subscription import DeliverySchema
from shared.subscriptions.system_event import build_deletion_notice
from tests.builders import a_subscription
from tests.integration.push.on_loop import HttpPusher, run
from tests.integration.push.scripted import OK, Server, always, failure_of
from tests.without_loop import at_once

TIMEOUT = timedelta(seconds=5)


@pytest.fixture
def guarded() -> Iterator[TokenPusher]:
    """What the app sends with, where no private network is allowed."""
    guard = OutboundGuard(
        allow_http=True, allowed_networks=(), app_addresses=(), identity_endpoints=()
    )
    with HttpPusher(guard) as bare:
        yield TokenPusher(bare.real, WebhookTokens(None, FakeClock(), at_once))


@pytest.mark.parametrize("schema", DeliverySchema)
def test_no_handshake_and_no_notice_reaches_what_the_guard_refuses(
    guarded: TokenPusher, schema: DeliverySchema
) -> None:
    with Server(always(OK)) as server:
        url = f"http://127.0.0.1:{server.port}/"
        subscription = a_subscription(endpoint_url=url, delivery_schema=schema)
        asked = build_challenge(
            subscription,
            code="c",
            event_id="e",
            now=START,
            link="https://pushgrid.example/validate/x",
        )
        notice = build_deletion_notice(subscription, event_id="e", now=START)

        exchanges = [run(guarded.send(each, TIMEOUT)) for each in (asked.request, notice)]
        ParallelNotifier(guarded, run).notify([notice])

        assert server.connections == 0
    for exchange in exchanges:
        assert failure_of(exchange) is Failure.NOT_ALLOWED
