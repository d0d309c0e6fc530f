"""Rules about ids and addresses: the type of resource that each must belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.values import (
    Computed,
    Deployed,
    Input,
    Ref,
    members,
    parts_of,
    shown,
)
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.rules import azure
from tools.bicepcheck.rules.names_in_code import App

IDS = {
    "serverFarmId": azure.PLAN,
    "keyVaultReferenceIdentity": azure.IDENTITY,
    "userAssignedIdentityResourceId": azure.IDENTITY,
    "virtualNetworkSubnetId": f"{azure.NETWORK}/subnets",
    "WorkspaceResourceId": azure.WORKSPACE,
    "workspaceId": azure.WORKSPACE,
    "subnet.id": f"{azure.NETWORK}/subnets",
    "virtualNetwork.id": azure.NETWORK,
    "privateDnsZoneId": azure.ZONE,
    "actionGroupId": azure.ACTION_GROUP,
    "actionGroups": azure.ACTION_GROUP,
    "contactGroups": azure.ACTION_GROUP,
}
"""Members, at any depth, that hold the id of a resource of a type."""

_ALERT_SCOPES = {azure.LOG_ALERT: azure.WORKSPACE, azure.METRIC_ALERT: azure.STORAGE}


def check(deployment: EvaluatedFolder, _app: App) -> Iterator[Problem]:
    """Check all references of a deployment's resources."""
    for one in deployment.resources:
        if one.existing:
            yield from _existing(one, deployment)
            continue
        for path, value in members(one.body):
            for kind in _expected(path):
                for item in value if isinstance(value, list) else [value]:
                    yield from _id(one, path, item, kind)
        if watched := _ALERT_SCOPES.get(one.type):
            for item in one.at("properties", "scopes") or []:
                yield from _id(one, ("properties", "scopes"), item, watched)


def _expected(path: tuple[str, ...]) -> Iterator[str]:
    for name in (path[-1], ".".join(path[-2:])):
        if name in IDS:
            yield IDS[name]


def _id(one: Deployed, path: tuple[str, ...], value: Any, kind: str) -> Iterator[Problem]:
    if value is None or isinstance(value, Input):
        return
    name = ".".join(path)
    first, *rest = parts_of(value) or (value,)
    if isinstance(first, Ref):
        below = "".join(map(shown, rest)).split("/")[1::2]
        found = "/".join([first.of.type, *below])
        if kind in (found, first.of.type) and first.path == ("id",):
            return
        message = f"{name} must be the id of a {kind}, not {found} {'.'.join(first.path)}"
    elif isinstance(value, Computed) and value.function.endswith(("esourceId", "reference")):
        message = (
            f"{name} calls {value.function}(), which adds no dependency: use the resource's .id"
        )
    else:
        message = f"{name} must be the id of a {kind}, not {shown(value)!r}"
    yield one.problem("reference", message, *path)


def _existing(one: Deployed, deployment: EvaluatedFolder) -> Iterator[Problem]:
    """An existing resource is one that the deployment creates, unless its scope is elsewhere."""
    if isinstance(one.scope, Computed) and one.scope.args:
        return
    if deployment.of(one.type):
        message = f"{one.symbol}: the deployment creates no {one.type} of that name"
        yield one.problem("reference", message)
    elif one.type.endswith("/subnets") and one.parent is not None:
        names = [subnet.get("name") for subnet in one.parent.items("properties", "subnets")]
        if names and one.name not in names:
            message = f"{one.symbol}: the network has no subnet {shown(one.name)!r}"
            yield one.problem("reference", message)
