"""Rules about single properties: encryption, identities, hosting plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.values import Deployed, is_known
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.rules import azure
from tools.bicepcheck.rules.names_in_code import App

_FLEX = "properties.functionAppConfig"
_CONFIG = "properties.siteConfig"
_TLS = ("TLS 1.2 or newer", "1.2", "1.3")
_PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")

REQUIRED: dict[str, dict[str, tuple[Any, ...]]] = {
    azure.STORAGE: {
        "kind": ("for queues, tables and lifecycle rules", "StorageV2"),
        "properties.minimumTlsVersion": ("TLS 1.2 or newer", "TLS1_2", "TLS1_3"),
        "properties.supportsHttpsTrafficOnly": ("https only", True),
        "properties.allowSharedKeyAccess": ("no shared key", False),
        "properties.allowBlobPublicAccess": ("no public blob", False),
        "properties.allowCrossTenantReplication": ("data stays in the tenant", False),
        "properties.defaultToOAuthAuthentication": ("no shared key", True),
        "properties.isLocalUserEnabled?": ("no local users", False),
        "properties.isSftpEnabled?": ("no local users", False),
        "properties.dnsEndpointType?": ("standard addresses", "Standard"),
    },
    azure.BLOBS: {
        "properties.deleteRetentionPolicy.days?": ("deleted payloads are billed", *range(1, 8)),
    },
    azure.CONTAINER: {"properties.publicAccess?": ("no public blob", "None")},
    azure.PLAN: {
        "sku.name": ("Flex Consumption", "FC1"),
        "sku.tier?": ("Flex Consumption", "FlexConsumption"),
        "kind?": ("a plan for functions", "functionapp", "functionapp,linux", "linux"),
        "properties.reserved": ("Linux", True),
    },
    azure.SITE: {
        "kind": ("a function app on Linux", "functionapp,linux"),
        "properties.httpsOnly": ("https only", True),
        "properties.enabled?": ("the app runs", True),
        "properties.publicNetworkAccess?": ("publishers reach the app", "Enabled"),
        f"{_CONFIG}.minTlsVersion": _TLS,
        f"{_CONFIG}.scmMinTlsVersion": _TLS,
        f"{_CONFIG}.ftpsState?": ("no FTP", "Disabled", "FtpsOnly"),
        f"{_CONFIG}.remoteDebuggingEnabled?": ("no remote access", False),
        "properties.clientCertEnabled?": ("publishers have no certificate", False),
        "identity.type": ("its roles exist before the app", "UserAssigned"),
        f"{_FLEX}.runtime.name": ("the app is written in Python", "python"),
        f"{_FLEX}.runtime.version": ("versions of Flex Consumption", *_PYTHONS),
        f"{_FLEX}.deployment.storage.type": ("where the package is", "blobContainer"),
        f"{_FLEX}.deployment.storage.authentication.type": ("no key", "UserAssignedIdentity"),
        f"{_FLEX}.scaleAndConcurrency.instanceMemoryMB": ("sizes of Flex", 512, 2048, 4096),
    },
    azure.VAULT: {
        "properties.enableRbacAuthorization": ("access by role", True),
        "properties.enablePurgeProtection": ("secrets can't be lost", True),
        "properties.enableSoftDelete?": ("secrets can't be lost", True),
        "properties.accessPolicies?": ("access by role", []),
        "properties.enabledForDeployment?": ("access by role", False),
        "properties.enabledForTemplateDeployment?": ("access by role", False),
        "properties.enabledForDiskEncryption?": ("access by role", False),
        "properties.softDeleteRetentionInDays?": ("days that vaults allow", *range(7, 91)),
    },
    azure.INSIGHTS: {
        "properties.DisableLocalAuth": ("no ingestion by key", True),
        "properties.IngestionMode?": ("logs go to the workspace", "LogAnalytics"),
    },
    azure.WORKSPACE: {"properties.features.disableLocalAuth": ("no ingestion by key", True)},
    azure.ASSIGNMENT: {
        "properties.principalType": ("no directory lookup", "ServicePrincipal", "User", "Group"),
    },
}
"""By type: a path, the reason, and the allowed values; ``?`` after the path: may be absent."""


def check(deployment: EvaluatedFolder, _app: App) -> Iterator[Problem]:
    """Check all resources that the deployment creates."""
    for one in deployment.deployed:
        for path, (reason, *allowed) in REQUIRED.get(one.type, {}).items():
            yield from _required(one, path, allowed, reason)


def _required(one: Deployed, path: str, allowed: list[Any], reason: str) -> Iterator[Problem]:
    steps = path.removesuffix("?").split(".")
    value, name = one.at(*steps), f"{one.symbol}: {path.removesuffix('?')}"
    shown = " or ".join(map(str, allowed if len(allowed) < 6 else (allowed[0], "…", allowed[-1])))
    if value is None and not path.endswith("?"):
        yield one.problem("policy", f"{name} is missing; set it to {shown} ({reason})", *steps)
    elif value is not None and is_known(value) and value not in allowed:
        yield one.problem("policy", f"{name} must be {shown}, not {value} ({reason})", *steps)
