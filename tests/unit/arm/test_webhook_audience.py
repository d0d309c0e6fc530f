"""Audiences of the tokens for webhooks that Entra ID protects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.http import Audience
from tests.unit.arm.documents import DEPLOYMENT, refusal, rendered, subscription, targets, webhook

TENANT = "11111111-2222-3333-4444-555555555555"
APPLICATION = "66666666-7777-8888-9999-aaaaaaaaaaaa"
WITH_IDENTITY = replace(DEPLOYMENT, has_webhook_identity=True)
TENANT_ID = "azureActiveDirectoryTenantId"
APPLICATION_ID = "azureActiveDirectoryApplicationIdOrUri"
MICROSOFT_HOSTS = (
    *("storage.azure.com", "storage.azure.com/", "storage.azure.com:443/", "kv.vault.azure.net"),
    *("acct.blob.core.windows.net", "graph.microsoft.com", "management.usgovcloudapi.net"),
    *("microsoftgraph.chinacloudapi.cn", "api.loganalytics.io", "adb-1.2.azuredatabricks.net"),
)


def protected(
    tenant: object = TENANT, application: object = APPLICATION, **members: Any
) -> dict[str, Any]:
    destination = webhook(**{TENANT_ID: tenant, APPLICATION_ID: application}, **members)
    return subscription(destination=destination, deployment=WITH_IDENTITY)


@pytest.mark.parametrize(
    "application",
    [
        *(APPLICATION, APPLICATION.upper(), f"api://{APPLICATION}", "api://contoso.example/hook"),
        *("https://contoso.example", "https://contoso.onmicrosoft.com/hook/"),
        *("https://hook.azurewebsites.net", "https://notazure.com"),
        *("https://loganalytics.io.contoso.example", "https://contoso.example:8443/v1.2/hook.json"),
        "api://hook",
    ],
)
def test_a_webhook_can_have_an_audience(application: str) -> None:
    stored = protected(application=application)

    assert to_subscription(stored).destination.audience == Audience(TENANT, application)
    shown = rendered(stored)["destination"]["properties"]
    assert (shown[TENANT_ID], shown[APPLICATION_ID]) == (TENANT, application)


@pytest.mark.parametrize("tenant", ["contoso.example", "contoso.onmicrosoft.com", TENANT.upper()])
def test_a_tenant_can_be_a_domain(tenant: str) -> None:
    audience = to_subscription(protected(tenant=tenant)).destination.audience

    assert audience is not None
    assert audience.tenant == tenant


def test_most_webhooks_have_no_audience() -> None:
    assert to_subscription(protected(None, None)).destination.audience is None
    assert to_subscription(protected("", "")).destination.audience is None
    assert to_subscription(subscription()).destination.audience is None


@pytest.mark.parametrize(
    "application",
    [
        *(f"https://{host}" for host in MICROSOFT_HOSTS),
        *("api://storage.azure.com", "e406a681-f3d4-42a8-90b6-c2b029497af1"),
        *("E406A681-F3D4-42A8-90B6-C2B029497AF1", "api://e406a681-f3d4-42a8-90b6-c2b029497af1"),
        "00000003-0000-0000-c000-000000000000",
        *("00000003-0000-0ff1-ce00-000000000000", "589d5083-6f11-4d30-a62a-a4b316a14abf"),
        "https://contoso.example/2ff814a6-3304-4ab8-85cb-cd0e6f879c1d",
        # Federation: its token stands for the webhooks' application elsewhere.
        *("api://AzureADTokenExchange", "api://AzureADTokenExchangeUSGov/"),
        "fb60f99c-7a34-4190-8149-302f77469936",
    ],
)
def test_microsofts_services_can_not_be_an_audience(application: str) -> None:
    where = f"properties.destination.properties.{APPLICATION_ID}"

    assert refusal(protected, application=application) == (
        where,
        f"{where} is a Microsoft service; webhooks can't get tokens for it.",
    )


@pytest.mark.parametrize(
    "application",
    [
        *("x", "https://", "contoso.example", f"{APPLICATION} https://storage.azure.com"),
        *(f"{APPLICATION}/.default https://storage.azure.com", "https://x@storage.azure.com"),
        *("https://contoso.example?x", "https://contoso.example#x"),
        *("https://contoso.example\\storage.azure.com", "https://contoso.example/%2e"),
        *("https://contoso.example\n", "https://\uff53torage.azure.com"),
        *("https://graph.micro\u017foft.com", "https://vault.azure.\u212aet"),
        *("https://STORAGE.azure.com//", "https://storage.azure.com.", "http://storage.azure.com"),
        *("http://contoso.example", "urn:contoso:hook", "ms-appx://contoso.example"),
        *("https://hook", "https://contoso.example/.default"),
        *("https://contoso.example/hook/.default", "https://contoso.example/.."),
        *("https://contoso.example/../storage", "https://contoso.example/./hook"),
        *("https://contoso.example//hook", "https://contoso..example", "https://.contoso.example"),
        *(f"api://{APPLICATION}/.default", f"{APPLICATION}/.default", "api://" + "a" * 500),
    ],
)
def test_an_application_is_an_id_or_a_uri(application: str) -> None:
    assert "must be the id of an application" in refusal(protected, application=application)[1]


@pytest.mark.parametrize("tenant", ["common", "a/b", "a.b/c", "../x.y", "contoso.example?", "é.x"])
def test_a_tenant_is_an_id_or_a_domain(tenant: str) -> None:
    assert "must be a GUID or a domain" in refusal(protected, tenant=tenant)[1]


@pytest.mark.parametrize(
    ("tenant", "application", "missing"),
    [(TENANT, None, APPLICATION_ID), (None, APPLICATION, TENANT_ID)],
)
def test_both_members_go_together(tenant: object, application: object, missing: str) -> None:
    assert targets(protected, tenant, application) == [
        f"properties.destination.properties.{missing}"
    ]


def test_a_token_and_a_custom_authorization_header_exclude_each_other() -> None:
    mappings = [{"name": "authorization", "type": "Static", "properties": {"value": "k"}}]

    assert "Authorization" in refusal(protected, deliveryAttributeMappings=mappings)[1]
