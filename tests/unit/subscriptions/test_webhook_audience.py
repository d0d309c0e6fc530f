"""Webhooks that Entra ID protects: what can be asked for, and what never."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.errors import InvalidDocument
from shared.http import Audience
from shared.subscriptions.subscription_codec import render_subscription
from shared.subscriptions.subscription_document import subscription_of
from tests.unit.subscriptions.documents import (
    DEPLOYMENT,
    LATEST,
    only_fault,
    subscription,
    targets,
    webhook,
)

TENANT = "11111111-2222-3333-4444-555555555555"
APPLICATION = "66666666-7777-8888-9999-aaaaaaaaaaaa"
WITH_IDENTITY = replace(DEPLOYMENT, has_webhook_identity=True)
TENANT_ID = "azureActiveDirectoryTenantId"
APPLICATION_ID = "azureActiveDirectoryApplicationIdOrUri"


def protected(
    tenant: object = TENANT, application: object = APPLICATION, **members: Any
) -> dict[str, Any]:
    destination = webhook(**{TENANT_ID: tenant, APPLICATION_ID: application}, **members)
    return subscription(destination=destination, deployment=WITH_IDENTITY)


@pytest.mark.parametrize(
    "application",
    [
        APPLICATION,
        APPLICATION.upper(),
        f"api://{APPLICATION}",
        "api://contoso.example/hook",
        "https://contoso.example",
        "https://contoso.onmicrosoft.com/hook/",
        "https://hook.azurewebsites.net",
        "https://notazure.com",
        "api://hook",
    ],
)
def test_a_webhook_can_want_tokens(application: str) -> None:
    stored = protected(application=application)

    assert subscription_of(stored).audience == Audience(TENANT, application)
    shown = render_subscription(stored, LATEST)["properties"]["destination"]["properties"]
    assert (shown[TENANT_ID], shown[APPLICATION_ID]) == (TENANT, application)


@pytest.mark.parametrize("tenant", ["contoso.example", "contoso.onmicrosoft.com", TENANT.upper()])
def test_a_tenant_can_be_a_domain(tenant: str) -> None:
    audience = subscription_of(protected(tenant=tenant)).audience

    assert audience is not None
    assert audience.tenant == tenant


def test_most_webhooks_want_none() -> None:
    assert subscription_of(protected(None, None)).audience is None
    assert subscription_of(protected("", "")).audience is None
    assert subscription_of(subscription()).audience is None


@pytest.mark.parametrize(
    "application",
    [
        "https://storage.azure.com",
        "https://storage.azure.com/",
        "https://STORAGE.azure.com//",
        "https://storage.azure.com.",
        "https://storage.azure.com:443/",
        "http://storage.azure.com",
        "api://storage.azure.com",
        "https://acct.blob.core.windows.net",
        "https://acct.queue.core.chinacloudapi.cn",
        "https://acct.table.core.usgovcloudapi.net",
        "https://acct.blob.core.cloudapi.de",
        "https://management.azure.com",
        "https://management.core.windows.net/",
        "https://management.usgovcloudapi.net",
        "https://management.chinacloudapi.cn",
        "https://management.microsoftazure.de",
        "https://vault.azure.net",
        "https://kv.vault.azure.net",
        "https://managedhsm.azure.net",
        "https://vault.azure.cn",
        "https://vault.usgovcloudapi.net",
        "https://graph.microsoft.com",
        "https://graph.windows.net",
        "https://graph.microsoft.us",
        "https://microsoftgraph.chinacloudapi.cn",
        "https://eventgrid.azure.net",
        "https://database.windows.net",
        "e406a681-f3d4-42a8-90b6-c2b029497af1",
        "E406A681-F3D4-42A8-90B6-C2B029497AF1",
        "api://e406a681-f3d4-42a8-90b6-c2b029497af1",
        "797f4846-ba00-4fd7-ba43-dac1f8f63013",
        "cfa8b339-82a2-471a-a3c9-0fc0be7a4093",
        "00000003-0000-0000-c000-000000000000",
        "00000002-0000-0000-c000-000000000000",
    ],
)
def test_there_is_never_a_token_for_microsofts_own_services(application: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        protected(application=application)

    fault = only_fault(caught.value)
    assert fault.target == f"properties.destination.properties.{APPLICATION_ID}"
    assert "no webhook gets tokens for it" in fault.message


@pytest.mark.parametrize(
    "application",
    [
        "x",
        "https://",
        "contoso.example",
        f"{APPLICATION} https://storage.azure.com",
        f"{APPLICATION}/.default https://storage.azure.com",
        "https://x@storage.azure.com",
        "https://contoso.example?x",
        "https://contoso.example#x",
        "https://contoso.example\\storage.azure.com",
        "https://contoso.example/%2e",
        "https://contoso.example\n",
        "https://\uff53torage.azure.com",
    ],
)
def test_an_application_is_an_id_or_a_uri(application: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        protected(application=application)

    assert "must be the id of an application" in only_fault(caught.value).message


@pytest.mark.parametrize("tenant", ["common", "a/b", "a.b/c", "../x.y", "contoso.example?", "é.x"])
def test_a_tenant_is_an_id_or_a_domain(tenant: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        protected(tenant=tenant)

    assert "must be a GUID or a domain" in only_fault(caught.value).message


@pytest.mark.parametrize(
    ("tenant", "application", "missing"),
    [(TENANT, None, APPLICATION_ID), (None, APPLICATION, TENANT_ID)],
)
def test_both_members_go_together(tenant: object, application: object, missing: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        protected(tenant, application)

    assert targets(caught.value) == [f"properties.destination.properties.{missing}"]


def test_a_token_and_a_header_of_its_own_exclude_each_other() -> None:
    mappings = [{"name": "authorization", "type": "Static", "properties": {"value": "k"}}]

    with pytest.raises(InvalidDocument) as caught:
        protected(deliveryAttributeMappings=mappings)

    assert "Authorization" in only_fault(caught.value).message


def test_without_a_credential_there_are_no_tokens() -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(destination=webhook(**{TENANT_ID: TENANT, APPLICATION_ID: APPLICATION}))

    assert "PUSHGRID_WEBHOOK_CLIENT_ID" in only_fault(caught.value).message
