"""Which resource an id, an address or a name must be of."""

from __future__ import annotations

from typing import Any

from tools.bicepcheck.evaluation.deployment import Deployment
from tools.bicepcheck.evaluation.values import Deployed, Given, Lined, Made, Ref, Text, plain
from tools.bicepcheck.problems import Report
from tools.bicepcheck.rules.addresses import ACCOUNT, rest_of
from tools.bicepcheck.rules.policy import members

_NETWORK = "Microsoft.Network"
_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"

IDS = {
    "serverFarmId": "Microsoft.Web/serverfarms",
    "keyVaultReferenceIdentity": _IDENTITY,
    "userAssignedIdentityResourceId": _IDENTITY,
    "virtualNetworkSubnetId": f"{_NETWORK}/virtualNetworks/subnets",
    "WorkspaceResourceId": "Microsoft.OperationalInsights/workspaces",
    "workspaceId": "Microsoft.OperationalInsights/workspaces",
    "subnet.id": f"{_NETWORK}/virtualNetworks/subnets",
    "virtualNetwork.id": f"{_NETWORK}/virtualNetworks",
    "privateDnsZoneId": f"{_NETWORK}/privateDnsZones",
    "privateLinkServiceId": ACCOUNT,
    "actionGroupId": "Microsoft.Insights/actionGroups",
    "actionGroups": "Microsoft.Insights/actionGroups",
    "contactGroups": "Microsoft.Insights/actionGroups",
}
"""Members, at any depth, that hold the id of a resource of a type."""

_NEEDED = {"Microsoft.Insights/components": ("properties", "WorkspaceResourceId")}
"""Ids without which a resource is made, and is not what alerts ask."""

_ALERT_SCOPES = {
    "Microsoft.Insights/scheduledQueryRules": "Microsoft.OperationalInsights/workspaces",
    "Microsoft.Insights/metricAlerts": ACCOUNT,
}


def check(deployment: Deployment, report: Report) -> None:
    """Check all references of the resources that are made."""
    for one in deployment.resources:
        if one.existing:
            _existing(one, deployment, report)
            continue
        for path, value in members(one.body):
            for asked, kind in IDS.items():
                if path[-asked.count(".") - 1 :] == tuple(asked.split(".")):
                    for item in value if isinstance(value, list) else [value]:
                        _id(one, path, item, kind, report)
        needed = _NEEDED.get(one.type)
        if needed and one.at(*needed) is None:
            report.add(one.file, one.line, "reference", f"{one.symbol} lacks {'.'.join(needed)}")
        if watched := _ALERT_SCOPES.get(one.type):
            for item in one.at("properties", "scopes") or []:
                _id(one, ("properties", "scopes"), item, watched, report)
        if one.type == "Microsoft.Web/sites":
            _site(one, deployment, report)


def _id(one: Deployed, path: tuple[str, ...], value: Any, kind: str, report: Report) -> None:
    if value is None or isinstance(value, Given):
        return
    where, line = ".".join(path), one.line_of(*path)
    bare = value.parts[0] if isinstance(value, Text) else value
    if isinstance(bare, Ref):
        below = plain(Text(value.parts[1:])).split("/")[1::2] if isinstance(value, Text) else []
        found = "/".join([bare.of.type, *below])
        if kind not in (found, bare.of.type) or bare.path != ("id",):
            message = f"{where} is the id of a {kind}, not {found} {'.'.join(bare.path)}"
            report.add(one.file, line, "reference", message)
    elif isinstance(value, Made) and value.function.endswith(("esourceId", "reference")):
        message = (
            f"{where} is put together by hand: use the id of the resource, which then comes first"
        )
        report.add(one.file, line, "reference", message)
    else:
        report.add(
            one.file, line, "reference", f"{where} is the id of a {kind}, not {plain(value)!r}"
        )


def _existing(one: Deployed, deployment: Deployment, report: Report) -> None:
    """An existing resource is one that the deployment makes, unless it says where else it is."""
    if isinstance(one.scope, Made) and one.scope.args:
        return
    if any(made.type == one.type for made in deployment.resources if not made.existing):
        report.add(
            one.file,
            one.line,
            "reference",
            f"{one.symbol}: the deployment makes no {one.type} of that name",
        )
    elif one.type.endswith("/subnets") and one.parent is not None:
        subnets = one.parent.at("properties", "subnets") or []
        names = [subnet.get("name") for subnet in subnets if isinstance(subnet, Lined)]
        if names and one.name not in names:
            message = f"{one.symbol}: the network has no subnet {plain(one.name)!r}"
            report.add(one.file, one.line, "reference", message)


def _site(one: Deployed, deployment: Deployment, report: Report) -> None:
    identities = one.at("identity", "userAssignedIdentities")
    line = one.line_of("identity")
    if isinstance(identities, Lined):
        for key in identities:
            if not (isinstance(key, Ref) and key.of.type == _IDENTITY and key.path == ("id",)):
                report.add(
                    one.file, line, "reference", "userAssignedIdentities holds ids of identities"
                )
        for path, value in members(one.body):
            if IDS.get(path[-1]) == _IDENTITY and value not in identities:
                message = f"{path[-1]} is no identity of the app"
                report.add(one.file, one.line_of(*path), "reference", message)
    path = ("properties", "functionAppConfig", "deployment", "storage", "value")
    value = one.at(*path)
    containers = [made.name for made in deployment.of(f"{ACCOUNT}/blobServices/containers")]
    if value is None:
        return
    rest = rest_of(value, "blob", deployment.of(ACCOUNT))
    if rest is None:
        report.add(one.file, one.line_of(*path), "reference", "the package is in a blob container")
    elif any(str(prefix).startswith(f"{rest}/") for prefix in _emptied(deployment)):
        message = f"the package's container {rest!r} is emptied by a lifecycle rule"
        report.add(one.file, one.line_of(*path), "reference", message)
    elif rest not in containers:
        message = f"the package's container {rest!r} is not made"
        report.add(one.file, one.line_of(*path), "reference", message)


def _emptied(deployment: Deployment) -> list[Any]:
    """Return the prefixes of all lifecycle rules."""
    return [
        prefix
        for policy in deployment.of(f"{ACCOUNT}/managementPolicies")
        for path, value in members(policy.body)
        if path[-1] == "prefixMatch" and isinstance(value, list)
        for prefix in value
    ]
