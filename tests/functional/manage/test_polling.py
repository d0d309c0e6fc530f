"""The official client waits for a consent that comes later, and learns of one that doesn't."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import requests
import urllib3
from azure.core.credentials import AccessToken
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid import models as m

from tests.fakes import answered
from tests.functional.manage.arm_api import HOST, KEY, URL, ArmApi


class Wire(requests.adapters.BaseAdapter):
    """Carries requests to a deployment in memory; *before_polls* run before each poll."""

    def __init__(self, api: ArmApi) -> None:
        super().__init__()
        self.api = api
        self.before_polls: list[Callable[[], object]] = []
        self.polls = 0

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
        if request.method == "GET":
            self.polls += 1
            if self.before_polls:
                self.before_polls.pop(0)()
        body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
        url = str(request.url)
        answer = self.api.call(str(request.method), url.removeprefix(HOST), body)
        raw = urllib3.HTTPResponse(
            io.BytesIO(answer.body), answer.headers, answer.status, preload_content=False
        )
        return requests.adapters.HTTPAdapter().build_response(request, raw)

    def close(self) -> None:
        """There is nothing to close."""


class Credential:
    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        del scopes, options
        return AccessToken(KEY, 2**31)


@pytest.fixture
def wire(orders: ArmApi) -> Wire:
    orders.pusher.script(URL, answered(200))
    return Wire(orders)


@pytest.fixture
def client(wire: Wire) -> Iterator[EventGridManagementClient]:
    session = requests.Session()
    session.mount(HOST, wire)
    transport = RequestsTransport(session=session, session_owner=False)
    with EventGridManagementClient(
        Credential(),
        "s1",
        base_url=HOST,
        authentication_policy=SansIOHTTPPolicy[Any, Any](),
        transport=transport,
    ) as client:
        client._config.polling_interval = 0
        yield client


def subscription() -> m.EventSubscription:
    return m.EventSubscription(destination=m.WebHookEventSubscriptionDestination(endpoint_url=URL))


def link(api: ArmApi) -> str:
    data = json.loads(api.pusher.sent[-1].request.body)[0]["data"]
    return str(data["validationUrl"])


def test_the_client_waits_until_somebody_consents(client: Any, wire: Wire, orders: ArmApi) -> None:
    wire.before_polls = [lambda: None, lambda: orders.open_link(link(orders))]

    poller = client.topic_event_subscriptions.begin_create_or_update(
        "rg", "orders", "crm", subscription()
    )

    assert poller.result().provisioning_state == "Succeeded"
    assert wire.polls == 2


@pytest.mark.parametrize("method", ["begin_create_or_update", "begin_update"])
def test_the_client_learns_that_nobody_did(
    client: Any, wire: Wire, orders: ArmApi, method: str
) -> None:
    wire.before_polls = [lambda: orders.clock.advance(timedelta(minutes=10))]
    given: Any = subscription()
    if method == "begin_update":
        other = m.WebHookEventSubscriptionDestination(endpoint_url="https://old.example/")
        client.topic_event_subscriptions.begin_create_or_update(
            "rg", "orders", "crm", m.EventSubscription(destination=other)
        ).result()
        given = m.EventSubscriptionUpdateParameters(destination=given.destination)

    poller = getattr(client.topic_event_subscriptions, method)("rg", "orders", "crm", given)

    with pytest.raises(HttpResponseError, match="Failed"):
        poller.result()
