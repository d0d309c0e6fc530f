"""What every deployment must hold, whatever else it does: encryption, identities, closed doors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.bicepcheck.evaluation.values import Deployed, known
from tools.bicepcheck.problems import Report

Path = tuple[str, ...]


_ACCOUNT = "Microsoft.Storage/storageAccounts"
_SITE = "Microsoft.Web/sites"
_PLAN = "Microsoft.Web/serverfarms"
_VAULT = "Microsoft.KeyVault/vaults"
_FLEX = "properties.functionAppConfig"

MUST: dict[str, dict[str, tuple[Any, ...]]] = {
    _ACCOUNT: {
        "kind": ("queues, tables and lifecycle rules", "StorageV2"),
        "properties.minimumTlsVersion": ("TLS 1.2", "TLS1_2", "TLS1_3"),
        "properties.supportsHttpsTrafficOnly": ("https only", True),
        "properties.allowSharedKeyAccess": ("no shared key", False),
        "properties.allowBlobPublicAccess": ("no public blob", False),
        "properties.allowCrossTenantReplication": ("one tenant", False),
        "properties.defaultToOAuthAuthentication": ("no keys", True),
        "properties.isLocalUserEnabled?": ("no keys", False),
        "properties.isSftpEnabled?": ("no keys", False),
        "properties.dnsEndpointType?": ("addresses", "Standard"),
    },
    f"{_ACCOUNT}/blobServices": {
        "properties.deleteRetentionPolicy.days?": ("delivered payloads are billed", *range(1, 8)),
    },
    f"{_ACCOUNT}/blobServices/containers": {
        "properties.publicAccess?": ("no public blob", "None"),
    },
    _PLAN: {
        "sku.name": ("Flex Consumption", "FC1"),
        "sku.tier?": ("Flex Consumption", "FlexConsumption"),
        "kind?": ("a plan for functions", "functionapp", "functionapp,linux", "linux"),
        "properties.reserved": ("Linux", True),
    },
    _SITE: {
        "kind": ("a function app on Linux", "functionapp,linux"),
        "properties.httpsOnly": ("https only", True),
        "properties.enabled?": ("it runs", True),
        "properties.publicNetworkAccess?": ("publishers reach it", "Enabled"),
        "properties.siteConfig.minTlsVersion": ("TLS 1.2", "1.2", "1.3"),
        "properties.siteConfig.scmMinTlsVersion": ("TLS 1.2", "1.2", "1.3"),
        "properties.siteConfig.ftpsState?": ("no FTP", "Disabled", "FtpsOnly"),
        "properties.siteConfig.remoteDebuggingEnabled?": ("closed", False),
        "properties.clientCertEnabled?": ("publishers have none", False),
        "identity.type": ("its roles exist before it", "UserAssigned"),
        f"{_FLEX}.runtime.name": ("the app is Python", "python"),
        f"{_FLEX}.runtime.version": ("versions of Flex", "3.10", "3.11", "3.12", "3.13", "3.14"),
        f"{_FLEX}.deployment.storage.type": ("the package", "blobContainer"),
        f"{_FLEX}.deployment.storage.authentication.type": (
            "no shared key",
            "UserAssignedIdentity",
        ),
        f"{_FLEX}.scaleAndConcurrency.instanceMemoryMB": ("sizes of Flex", 512, 2048, 4096),
    },
    _VAULT: {
        "properties.enableRbacAuthorization": ("access by role", True),
        "properties.enablePurgeProtection": ("the key can't be lost", True),
        "properties.enableSoftDelete?": ("the key can't be lost", True),
        "properties.accessPolicies?": ("access by role", []),
        "properties.enabledForDeployment?": ("closed", False),
        "properties.enabledForTemplateDeployment?": ("closed", False),
        "properties.enabledForDiskEncryption?": ("closed", False),
        "properties.softDeleteRetentionInDays?": ("what vaults take", *range(7, 91)),
    },
    "Microsoft.Insights/components": {
        "properties.DisableLocalAuth": ("no ingestion by key", True),
        "properties.IngestionMode?": ("a workspace", "LogAnalytics"),
    },
    "Microsoft.OperationalInsights/workspaces": {
        "properties.features.disableLocalAuth": ("no ingestion by key", True),
    },
    "Microsoft.Authorization/roleAssignments": {
        "properties.principalType": ("no directory lag", "ServicePrincipal", "User", "Group"),
    },
}
"""Of a type: a path, why it matters, and the values it may have; with ``?``: or it is not there."""

_FORBIDDEN_ON_FLEX = (
    "healthCheckPath", "linuxFxVersion", "windowsFxVersion", "alwaysOn", "numberOfWorkers",
    "functionAppScaleLimit", "minimumElasticInstanceCount", "preWarmedInstanceCount",
    "use32BitWorkerProcess", "appSettings", "vnetRouteAllEnabled", "appCommandLine",
)  # fmt: skip
_KEPT_ON = frozenset(
    {
        "Microsoft.Insights/actionGroups",
        "Microsoft.Insights/metricAlerts",
        "Microsoft.Insights/scheduledQueryRules",
        "Microsoft.Insights/diagnosticSettings",
        "Microsoft.Consumption/budgets",
        "Microsoft.Storage/storageAccounts/managementPolicies",
    }
)
"""Types that are there for nothing when `enabled` is false."""


def check(resources: list[Deployed], report: Report) -> None:
    """Check all resources that are made."""
    for one in resources:
        for path, (why, *values) in MUST.get(one.type, {}).items():
            _must(one, path, values, why, report)
        if one.type == _SITE:
            _site(one, report)
        if one.type == _ACCOUNT:
            _doors(one, report)
        for at, value in members(one.body):
            if at[-1] == "enabled" and value is False and one.type in _KEPT_ON:
                where = ".".join(at)
                report.add(one.file, one.line_of(*at), "policy", f"{one.symbol}: {where} is off")


def _must(one: Deployed, path: str, values: list[Any], why: str, report: Report) -> None:
    steps = path.removesuffix("?").split(".")
    value, line = one.at(*steps), one.line_of(*steps)
    if value is None and not path.endswith("?"):
        wanted = " or ".join(str(one) for one in values)
        message = f"{one.symbol} lacks {path}, which must be {wanted} ({why})"
        report.add(one.file, line, "policy", message)
    elif value is not None and known(value) and value not in values:
        message = f"{one.symbol}: {'.'.join(steps)} must not be {value} ({why})"
        report.add(one.file, line, "policy", message)


def _site(one: Deployed, report: Report) -> None:
    config = one.at("properties", "siteConfig")
    for key in config if isinstance(config, Mapping) else ():
        if key in _FORBIDDEN_ON_FLEX:
            line = one.line_of("properties", "siteConfig", key)
            report.add(one.file, line, "policy", f"{key} is nothing that Flex Consumption knows")
    scale = one.at("properties", "functionAppConfig", "scaleAndConcurrency") or {}
    most = scale.get("maximumInstanceCount") if isinstance(scale, Mapping) else None
    if isinstance(most, int) and not 1 <= most <= 1000:
        report.add(one.file, one.line, "policy", f"maximumInstanceCount can't be {most}")


def _doors(one: Deployed, report: Report) -> None:
    """Check that an account without a public address has no open door besides."""
    rules = one.at("properties", "networkAcls")
    if not isinstance(rules, Mapping):
        return
    closed = one.at("properties", "publicNetworkAccess") == "Disabled"
    action, line = (
        rules.get("defaultAction"),
        one.line_of("properties", "networkAcls", "defaultAction"),
    )
    if closed and action == "Allow":
        report.add(one.file, line, "policy", "no public address, but networkAcls allow everybody")
    if not closed and action == "Deny":
        report.add(one.file, line, "policy", "a public address, but networkAcls deny everybody")


def members(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield all members of an object at every depth; of lists: all items under the list's path."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield (*path, str(key)), one
            yield from members(one, (*path, str(key)))
    elif isinstance(value, list):
        for one in value:
            if isinstance(one, Mapping | list):
                yield from members(one, path)
