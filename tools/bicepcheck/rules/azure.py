"""Names of resource types that several rules are about, and addresses of storage services."""

from __future__ import annotations

from typing import Any

from tools.bicepcheck.evaluation.values import Deployed, Ref, parts_of, text_of

STORAGE = "Microsoft.Storage/storageAccounts"
BLOBS, QUEUES, TABLES = (f"{STORAGE}/{one}Services" for one in ("blob", "queue", "table"))
CONTAINER = f"{BLOBS}/containers"
QUEUE = f"{QUEUES}/queues"
TABLE = f"{TABLES}/tables"
LIFECYCLE = f"{STORAGE}/managementPolicies"
SITE = "Microsoft.Web/sites"
PLAN = "Microsoft.Web/serverfarms"
IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"
VAULT = "Microsoft.KeyVault/vaults"
SECRET = f"{VAULT}/secrets"
ASSIGNMENT = "Microsoft.Authorization/roleAssignments"
INSIGHTS = "Microsoft.Insights/components"
WORKSPACE = "Microsoft.OperationalInsights/workspaces"
ACTION_GROUP = "Microsoft.Insights/actionGroups"
METRIC_ALERT = "Microsoft.Insights/metricAlerts"
LOG_ALERT = "Microsoft.Insights/scheduledQueryRules"
DIAGNOSTICS = "Microsoft.Insights/diagnosticSettings"
BUDGET = "Microsoft.Consumption/budgets"
NETWORK = "Microsoft.Network/virtualNetworks"
ENDPOINT = "Microsoft.Network/privateEndpoints"
ZONE_GROUP = f"{ENDPOINT}/privateDnsZoneGroups"
ZONE = "Microsoft.Network/privateDnsZones"
ZONE_LINK = f"{ZONE}/virtualNetworkLinks"


def path_at_service(value: Any, service: str, accounts: list[Deployed]) -> str | None:
    """Return the path after the address of a service (blob, queue, table), or ``None``."""
    first, *rest = parts_of(value)
    if isinstance(first, Ref):
        return (
            _text(rest) if first.reads(STORAGE, "properties", "primaryEndpoints", service) else None
        )
    text = _text(parts_of(value))
    for account in accounts:
        start = _text(parts_of(text_of(["https://", account.name, f".{service}."])))
        if text.startswith(start):
            return text.removeprefix(start).partition("/")[2]
    return None


def _text(parts: Any) -> str:
    return "".join(part if isinstance(part, str) else repr(part) for part in parts)
