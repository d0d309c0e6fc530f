"""The official clients with credentials that give tokens, and topics that take nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests
from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.eventgrid import EventGridPublisherClient, generate_sas
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid import models as m

from cli import options
from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Subscriber
from tests.commands import runner
from tests.e2e.publishing import an_event, endpoint, ids
from tests.integration.push.scripted import Server, always
from tests.tokens import CONTRIBUTOR, ISSUER, SENDER, a_token, key_set

_HEADER = "X-Forwarded-For"
_PUBLIC = "https://events.shop.example"


class Credential:
    """Gives a token with these roles, for whatever it is asked."""

    def __init__(self, *roles: str, **claims: Any) -> None:
        self._claims = {"roles": list(roles)} | claims
        self.scopes: list[str] = []

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        del options
        self.scopes += scopes
        claims: dict[str, Any] = {"aud": scopes[0].removesuffix("/.default")}
        return AccessToken(a_token(**claims | self._claims), 2**31)


@pytest.fixture(scope="module")
def host(own_azurite: Azurite) -> Iterator[RunningHost]:
    """The host, where Entra ID is a server of ours."""
    keys = key_set("k1")
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(keys) + keys
    with Server(always(answer)) as login:
        settings = host_settings(
            own_azurite,
            PUSHGRID_ENTRA_ISSUER=ISSUER,
            PUSHGRID_ENTRA_JWKS_URL=login.url,
            PUSHGRID_CLIENT_IP_HEADER=_HEADER,
            PUSHGRID_PUBLIC_URL=_PUBLIC,
        )
        with running_host(settings) as running:
            yield running


def test_a_topic_without_local_auth_takes_tokens_alone(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str
) -> None:
    arm.create_topic(name, disableLocalAuth=True)
    receiver = subscriber()
    arm.create_subscription(name, "crm", receiver.url)
    url, event = endpoint(host.url, name), an_event(1)
    sender = Credential(SENDER)

    with EventGridPublisherClient(url, sender) as client:
        client.send(event, enforce_https=False)
    with (
        EventGridPublisherClient(url, AzureKeyCredential(arm.key(name))) as client,
        pytest.raises(HttpResponseError, match="local authentication is disabled") as local,
    ):
        client.send(event)
    with (
        EventGridPublisherClient(url, Credential(SENDER, aud="https://a.example")) as client,
        pytest.raises(ClientAuthenticationError, match="for another audience"),
    ):
        client.send(event, enforce_https=False)

    assert sender.scopes == ["https://eventgrid.azure.net/.default"]
    assert local.value.status_code == 403
    assert receiver.wait_for(lambda pushes: len(pushes) >= 1)
    assert ids(receiver.pushes) == {event.id}


def test_the_address_and_the_clients_are_those_that_a_front_end_has(
    host: RunningHost, arm: Arm, name: str
) -> None:
    rules = [{"ipMask": "203.0.113.0/24", "action": "Allow"}]
    shown = arm.create_topic(name, inboundIpRules=rules)["properties"]["endpoint"]
    key, expires = arm.key(name), datetime.now(UTC) + timedelta(hours=1)

    def status(resource: str, client: str = "203.0.113.7") -> int:
        headers = {"aeg-sas-token": generate_sas(resource, key, expires), _HEADER: client}
        url = endpoint(host.url, name)
        return requests.options(url, headers=headers, timeout=60).status_code

    assert shown == endpoint(_PUBLIC, name)
    assert [status(each) for each in (shown, endpoint(host.url, name))] == [200, 200]
    assert status(endpoint("https://other.example", name)) == 401
    assert status(shown, client="198.51.100.1") == 403


def test_the_management_client_brings_a_token(host: RunningHost, name: str) -> None:
    operator = Credential(CONTRIBUTOR)
    with EventGridManagementClient(operator, "s1", base_url=host.url) as client:
        created = client.topics.begin_create_or_update(
            "shop", name, m.Topic(location="local"), enforce_https=False, polling_interval=0
        ).result()

    assert created.name == name
    assert set(operator.scopes) == {"https://management.azure.com/.default"}


def test_the_command_brings_a_token_for_the_audience_that_it_was_given(
    host: RunningHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default audience is Azure's, which a deployment does not get unasked."""
    operator = Credential(CONTRIBUTOR)
    monkeypatch.setattr(options, "entra_token", lambda scope: operator.get_token(scope).token)
    pushgrid = runner(monkeypatch, capsys, host.url)
    scope = "https://management.azure.com/.default"

    unasked = pushgrid("topic", "list", "--entra")
    given = pushgrid("topic", "list", "--entra", "--entra-scope", scope)

    assert (unasked.code, given.code) == (2, 0)
    assert f"add --entra-scope {scope}" in unasked.err
    assert set(operator.scopes) == {scope}
