"""What every deployment must hold, whatever else it does: encryption, identities, closed doors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.infra.problems import Report
from tests.infra.values import Deployed, known

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Must:
    """*path* of a *type* is one of *values*; *may_lack*: or is not there."""

    type: str
    path: str
    values: tuple[Any, ...]
    why: str
    may_lack: bool = False


_ACCOUNT = "Microsoft.Storage/storageAccounts"
_SITE = "Microsoft.Web/sites"
_PLAN = "Microsoft.Web/serverfarms"
_VAULT = "Microsoft.KeyVault/vaults"
_P = "properties."
_FLEX = f"{_P}functionAppConfig."

MUST = (
    Must(
        type=_ACCOUNT, path="kind", values=("StorageV2",), why="queues, tables and lifecycle rules"
    ),
    Must(type=_ACCOUNT, path=_P + "minimumTlsVersion", values=("TLS1_2", "TLS1_3"), why="TLS 1.2"),
    Must(type=_ACCOUNT, path=_P + "supportsHttpsTrafficOnly", values=(True,), why="https only"),
    Must(type=_ACCOUNT, path=_P + "allowSharedKeyAccess", values=(False,), why="no shared key"),
    Must(type=_ACCOUNT, path=_P + "allowBlobPublicAccess", values=(False,), why="no public blob"),
    Must(type=_ACCOUNT, path=_P + "allowCrossTenantReplication", values=(False,), why="one tenant"),
    Must(type=_ACCOUNT, path=_P + "defaultToOAuthAuthentication", values=(True,), why="no keys"),
    Must(
        type=_ACCOUNT, path=_P + "isLocalUserEnabled", values=(False,), why="no keys", may_lack=True
    ),
    Must(type=_ACCOUNT, path=_P + "isSftpEnabled", values=(False,), why="no keys", may_lack=True),
    Must(
        type=_ACCOUNT,
        path=_P + "dnsEndpointType",
        values=("Standard",),
        why="addresses",
        may_lack=True,
    ),
    Must(
        type=f"{_ACCOUNT}/blobServices/containers",
        path=_P + "publicAccess",
        values=("None",),
        why="no public blob",
        may_lack=True,
    ),
    Must(type=_PLAN, path="sku.name", values=("FC1",), why="Flex Consumption"),
    Must(
        type=_PLAN,
        path="sku.tier",
        values=("FlexConsumption",),
        why="Flex Consumption",
        may_lack=True,
    ),
    Must(
        type=_PLAN,
        path="kind",
        values=("functionapp", "functionapp,linux", "linux"),
        why="a plan for functions",
        may_lack=True,
    ),
    Must(type=_PLAN, path=_P + "reserved", values=(True,), why="Linux"),
    Must(type=_SITE, path="kind", values=("functionapp,linux",), why="a function app on Linux"),
    Must(type=_SITE, path=_P + "httpsOnly", values=(True,), why="https only"),
    Must(type=_SITE, path=_P + "enabled", values=(True,), why="it runs", may_lack=True),
    Must(
        type=_SITE,
        path=_P + "publicNetworkAccess",
        values=("Enabled",),
        why="publishers reach it",
        may_lack=True,
    ),
    Must(type=_SITE, path=_P + "siteConfig.minTlsVersion", values=("1.2", "1.3"), why="TLS 1.2"),
    Must(type=_SITE, path=_P + "siteConfig.scmMinTlsVersion", values=("1.2", "1.3"), why="TLS 1.2"),
    Must(
        type=_SITE,
        path=_P + "siteConfig.ftpsState",
        values=("Disabled", "FtpsOnly"),
        why="no FTP",
        may_lack=True,
    ),
    Must(
        type=_SITE,
        path=_P + "siteConfig.remoteDebuggingEnabled",
        values=(False,),
        why="closed",
        may_lack=True,
    ),
    Must(
        type=_SITE,
        path=_P + "clientCertEnabled",
        values=(False,),
        why="publishers have none",
        may_lack=True,
    ),
    Must(
        type=_SITE, path="identity.type", values=("UserAssigned",), why="its roles exist before it"
    ),
    Must(type=_SITE, path=_FLEX + "runtime.name", values=("python",), why="the app is Python"),
    Must(
        type=_SITE,
        path=_FLEX + "runtime.version",
        values=("3.10", "3.11", "3.12", "3.13", "3.14"),
        why="versions of Flex",
    ),
    Must(
        type=_SITE,
        path=_FLEX + "deployment.storage.type",
        values=("blobContainer",),
        why="the package",
    ),
    Must(
        type=_SITE,
        path=_FLEX + "deployment.storage.authentication.type",
        values=("UserAssignedIdentity",),
        why="no shared key",
    ),
    Must(
        type=_SITE,
        path=_FLEX + "scaleAndConcurrency.instanceMemoryMB",
        values=(512, 2048, 4096),
        why="sizes of Flex",
    ),
    Must(type=_VAULT, path=_P + "enableRbacAuthorization", values=(True,), why="access by role"),
    Must(
        type=_VAULT, path=_P + "enablePurgeProtection", values=(True,), why="the key can't be lost"
    ),
    Must(
        type=_VAULT,
        path=_P + "enableSoftDelete",
        values=(True,),
        why="the key can't be lost",
        may_lack=True,
    ),
    Must(
        type=_VAULT, path=_P + "accessPolicies", values=([],), why="access by role", may_lack=True
    ),
    Must(
        type=_VAULT, path=_P + "enabledForDeployment", values=(False,), why="closed", may_lack=True
    ),
    Must(
        type=_VAULT,
        path=_P + "enabledForTemplateDeployment",
        values=(False,),
        why="closed",
        may_lack=True,
    ),
    Must(
        type=_VAULT,
        path=_P + "enabledForDiskEncryption",
        values=(False,),
        why="closed",
        may_lack=True,
    ),
    Must(
        type="Microsoft.Insights/components",
        path=_P + "DisableLocalAuth",
        values=(True,),
        why="no ingestion by key",
    ),
    Must(
        type="Microsoft.Insights/components",
        path=_P + "IngestionMode",
        values=("LogAnalytics",),
        why="a workspace",
        may_lack=True,
    ),
    Must(
        type="Microsoft.OperationalInsights/workspaces",
        path=_P + "features.disableLocalAuth",
        values=(True,),
        why="no ingestion by key",
    ),
    Must(
        type="Microsoft.Authorization/roleAssignments",
        path=_P + "principalType",
        values=("ServicePrincipal", "User", "Group"),
        why="no directory lag",
    ),
)

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
        for must in MUST:
            if must.type == one.type:
                _must(one, must, report)
        if one.type == _SITE:
            _site(one, report)
        if one.type == _ACCOUNT:
            _doors(one, report)
        for path, value in members(one.body):
            if path[-1] == "enabled" and value is False and one.type in _KEPT_ON:
                where = ".".join(path)
                report.add(one.file, one.line_of(*path), "policy", f"{one.symbol}: {where} is off")


def _must(one: Deployed, must: Must, report: Report) -> None:
    path = tuple(must.path.split("."))
    value = one.at(*path)
    if value is None and must.may_lack:
        return
    if value is None:
        wanted = " or ".join(str(one) for one in must.values)
        message = f"{one.symbol} lacks {must.path}, which must be {wanted} ({must.why})"
        report.add(one.file, one.line_of(*path), "policy", message)
    elif known(value) and value not in must.values:
        message = f"{one.symbol}: {must.path} must not be {value} ({must.why})"
        report.add(one.file, one.line_of(*path), "policy", message)


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
