"""Webhooks that Entra ID protects: for whom their token is, and for whom there is never one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shared.http import Audience
from shared.subscriptions.deployment import Deployment
from shared.subscriptions.sections import Section

TENANT, APPLICATION = "azureActiveDirectoryTenantId", "azureActiveDirectoryApplicationIdOrUri"
_GUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TENANT = re.compile(rf"{_GUID}|[a-z0-9-]{{1,63}}(\.[a-z0-9-]{{1,63}})+", re.IGNORECASE)
_APPLICATION = re.compile(
    rf"{_GUID}|[a-z][a-z0-9+.-]{{0,31}}://(?P<host>[a-z0-9._-]{{1,253}})(:[0-9]{{1,5}})?"
    r"(/[a-z0-9._~/-]{0,500})?",
    re.IGNORECASE,
)
_ANY_GUID = re.compile(_GUID)
# Microsoft's own, of all clouds: storage, management, vaults, Graph and whatever else there is.
_NEVER_DOMAINS = (
    "azure.com",
    "azure.net",
    "azure.cn",
    "azure.us",
    "windows.net",
    "microsoft.com",
    "microsoft.us",
    "microsoftonline.com",
    "microsoftazure.de",
    "cloudapi.de",
    "chinacloudapi.cn",
    "usgovcloudapi.net",
    "office.com",
    "office365.com",
    "sharepoint.com",
    "visualstudio.com",
    "powerbi.com",
    "dynamics.com",
)
_NEVER_APPLICATIONS = frozenset(
    {
        "e406a681-f3d4-42a8-90b6-c2b029497af1",  # Azure Storage
        "797f4846-ba00-4fd7-ba43-dac1f8f63013",  # Azure Resource Manager
        "cfa8b339-82a2-471a-a3c9-0fc0be7a4093",  # Azure Key Vault
    }
)
_OWN = re.compile(r"[0-9a-f]{8}-0000-0000-c000-000000000000")  # Graph, Exchange, SharePoint …


def parse_audience(webhook: Section, deployment: Deployment) -> dict[str, str]:
    """
    Read for whom the tokens of a webhook are; what is wrong goes to its faults.

    Source: Event Grid "Secure webhook delivery with Microsoft Entra ID"; what is refused is ours.
    """
    given = [name for name in (TENANT, APPLICATION) if webhook.members.get(name) not in (None, "")]
    if not given:
        return {}
    if not deployment.has_webhook_identity:
        webhook.refuse(
            given[0],
            "There are no tokens for webhooks here: the app's settings PUSHGRID_WEBHOOK_CLIENT_ID "
            "and PUSHGRID_WEBHOOK_CLIENT_SECRET or PUSHGRID_WEBHOOK_CERTIFICATE are not set.",
        )
        return {}
    tenant, application = webhook.required_text(TENANT), webhook.required_text(APPLICATION)
    if tenant is None or application is None:
        return {}
    if not _TENANT.fullmatch(tenant):
        webhook.refuse(TENANT, f"{webhook.target(TENANT)} must be a GUID or a domain.")
    if fault := _application_fault(application):
        webhook.refuse(APPLICATION, f"{webhook.target(APPLICATION)} {fault}")
    return {TENANT: tenant, APPLICATION: application}


def audience_of(properties: Mapping[str, Any]) -> Audience | None:
    """Read for whom the tokens of a stored webhook are."""
    if not properties.get(APPLICATION):
        return None
    return Audience(properties[TENANT], properties[APPLICATION])


def _application_fault(application: str) -> str | None:
    parts = _APPLICATION.fullmatch(application)
    if parts is None:
        return "must be the id of an application, or its URI, such as api://contoso.example."
    host = (parts["host"] or "").lower().rstrip(".")
    ids = _ANY_GUID.findall(application.lower())
    if any(f".{host}".endswith(f".{domain}") for domain in _NEVER_DOMAINS) or any(
        each in _NEVER_APPLICATIONS or _OWN.fullmatch(each) for each in ids
    ):
        return "is a service of Microsoft's own: no webhook gets tokens for it."
    return None
