"""Updates whose new endpoint has not consented yet, and clients that wait for the consent."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
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

from pushgrid.testing.memory import answered
from shared.http import Audience
from tests.functional.manage.arm_api import CRM, HOST, KEY, URL, ArmApi, hook

NEW_URL = "https://new.example/hook"
TEN_MINUTES = timedelta(minutes=10)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_an_update_leaves_the_old_endpoint_at_work_until_the_new_one_is_proved(
    orders: ArmApi, method: str
) -> None:
    orders.json("PUT", CRM, hook(labels=["old"]), status=201)
    orders.pusher.script(NEW_URL, answered(200))
    before = orders.in_force()
    body = hook(NEW_URL, labels=["new"])

    answer = orders.json(method, CRM, body if method == "PUT" else body["properties"], status=201)

    assert answer["properties"]["provisioningState"] == "AwaitingManualAction"
    assert answer["properties"]["destination"]["properties"]["endpointBaseUrl"] == NEW_URL
    assert orders.in_force() == before
    orders.open_link(orders.validation_link())
    assert orders.in_force().endpoint_url == NEW_URL
    assert orders.in_force().generation == before.generation
    assert orders.json("GET", CRM)["properties"]["labels"] == ["new"]
    assert orders.state() == "Succeeded"


@pytest.fixture
def pending(orders: ArmApi) -> ArmApi:
    """A deployment whose subscription ``crm`` awaits the consent of a new endpoint."""
    orders.json("PUT", CRM, hook(), status=201)
    orders.pusher.script(NEW_URL, answered(200))
    orders.json("PUT", CRM, hook(NEW_URL), status=201)
    return orders


def test_an_update_that_nobody_proves_fails_and_the_old_endpoint_stays(pending: ArmApi) -> None:
    before = pending.in_force()
    pending.clock.advance(TEN_MINUTES)

    assert pending.state() == "Failed"
    assert pending.in_force() == before
    assert before.endpoint_url == URL

    pending.pusher.sent.clear()
    pending.json("PUT", CRM, hook(), status=201)
    assert pending.state() == "Succeeded"
    assert pending.pusher.sent == []  # it has consented before


def test_a_second_update_ends_the_link_of_the_first(pending: ArmApi) -> None:
    before = pending.in_force()
    first = pending.validation_link()

    pending.json("PATCH", CRM, {"labels": ["x"]}, status=201)

    assert pending.open_link(first).status == 404
    assert pending.in_force() == before
    assert pending.open_link(pending.validation_link()).status == 200
    assert pending.in_force().endpoint_url == NEW_URL


def test_the_same_endpoint_again_takes_the_update_back(pending: ArmApi) -> None:
    late = pending.validation_link()

    pending.json("PUT", CRM, hook(), status=201)

    assert pending.state() == "Succeeded"
    assert pending.open_link(late).status == 404
    assert pending.in_force().endpoint_url == URL


def test_another_audience_of_its_tokens_makes_it_another_endpoint(orders: ArmApi) -> None:
    orders.reconfigure(deployment=replace(orders.manage.deployment, has_webhook_identity=True))
    orders.json("PUT", CRM, hook(), status=201)
    body = hook()
    body["properties"]["destination"]["properties"] |= {
        "azureActiveDirectoryTenantId": "contoso.example",
        "azureActiveDirectoryApplicationIdOrUri": "api://hook",
    }

    for _ in range(2):
        orders.json("PUT", CRM, body, status=201)

    audience = Audience("contoso.example", "api://hook")
    assert [sent.request.audience for sent in orders.pusher.sent] == [None, audience]
    orders.call("DELETE", CRM)
    assert orders.pusher.sent[-1].request.audience == audience


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


def test_the_client_waits_until_somebody_consents(client: Any, wire: Wire, orders: ArmApi) -> None:
    wire.before_polls = [lambda: None, lambda: orders.open_link(orders.validation_link())]

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
