"""Reads the audience of the Entra ID token for a webhook, and refuses Microsoft's services."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shared.arm.deployment_capabilities import DeploymentCapabilities
from shared.arm.sections import Section
from shared.http import Audience
from shared.subscriptions.microsoft_services import is_microsoft_service

TENANT, APPLICATION = "azureActiveDirectoryTenantId", "azureActiveDirectoryApplicationIdOrUri"
_GUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TENANT = re.compile(rf"{_GUID}|[a-z0-9-]{{1,63}}(\.[a-z0-9-]{{1,63}})+", re.IGNORECASE | re.ASCII)
# An id, or a URI in a form that owners of applications can choose. Path segments can't begin with a
# full stop: "/.default" would be read as a scope, and ".." shortens the path.
_LABELS = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)"
_APPLICATION = re.compile(
    rf"{_GUID}|(?:api://(?P<api>{_LABELS}*)|https://(?P<https>{_LABELS}+))(?::[0-9]{{1,5}})?"
    r"(?:/[a-z0-9_~-][a-z0-9._~-]*)*/?",
    re.IGNORECASE | re.ASCII,
)
_MAX_APPLICATION = 500


def parse_audience(webhook: Section, deployment: DeploymentCapabilities) -> dict[str, str]:
    """
    Read the audience of a webhook's tokens; faults are added to *webhook*.

    Source: Event Grid "Secure webhook delivery with Microsoft Entra ID"; the refusals are our own.
    """
    given = [name for name in (TENANT, APPLICATION) if webhook.members.get(name) not in (None, "")]
    if not given:
        return {}
    if not deployment.has_webhook_identity:
        webhook.refuse(
            given[0],
            "This app can't get tokens for webhooks: its settings PUSHGRID_WEBHOOK_CLIENT_ID and "
            "PUSHGRID_WEBHOOK_CLIENT_SECRET or PUSHGRID_WEBHOOK_CERTIFICATE are not set.",
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


def to_audience(properties: Mapping[str, Any]) -> Audience | None:
    """Return the audience of a stored webhook's tokens."""
    if not properties.get(APPLICATION):
        return None
    return Audience(properties[TENANT], properties[APPLICATION])


def _application_fault(application: str) -> str | None:
    parts = _APPLICATION.fullmatch(application)
    if parts is None or len(application) > _MAX_APPLICATION:
        return (
            "must be the id of an application, or its URI, such as api://contoso.example or "
            "https://contoso.example/hook."
        )
    if is_microsoft_service(application, parts["api"] or parts["https"] or ""):
        return "is a Microsoft service; webhooks can't get tokens for it."
    return None
