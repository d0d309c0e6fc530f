"""Rules about private endpoints: without them, or their zones, names lead to closed doors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.values import Deployed, shown
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.rules import azure
from tools.bicepcheck.rules.names_in_code import App

_SERVICES = ("blob", "queue", "table")


def check(deployment: EvaluatedFolder, _app: App) -> Iterator[Problem]:
    """Check private endpoints and their zones."""
    for account in deployment.of(azure.STORAGE):
        if account.at("properties", "publicNetworkAccess") == "Disabled":
            yield from _private_account(account, deployment)


def _services(endpoint: Deployed) -> list[Any]:
    """Return the services that a private endpoint leads to."""
    connections = endpoint.items("properties", "privateLinkServiceConnections")
    groups = [one.get("properties", {}).get("groupIds") for one in connections]
    return [group for many in groups if isinstance(many, list) for group in many]


def _private_account(account: Deployed, deployment: EvaluatedFolder) -> Iterator[Problem]:
    """Without public access, every service has an endpoint, and its name a zone."""
    endpoints, zones = deployment.of(azure.ENDPOINT), deployment.of(azure.ZONE)
    reached = {service for one in endpoints for service in _services(one)}
    where = next(iter(endpoints), account)
    names = [shown(zone.name).split(".")[:2] for zone in zones]
    for service in _SERVICES:
        if service not in reached:
            message = f"the account has no public access; give its {service} service an endpoint"
            yield where.problem("network", message)
        if ["privatelink", service] not in names:
            yield where.problem(
                "network", f"the zone privatelink.{service}.… is missing; create it"
            )
