"""Rules about private endpoints: without them, or their zones, names lead to closed doors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.values import Deployed, Ref, leaves, shown
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.rules import azure
from tools.bicepcheck.rules.names_in_code import App

_SERVICES = ("blob", "queue", "table")
_ZONES = {"vault": "vaultcore"}
"""The zone of a service, where it has another name."""


def check(deployment: EvaluatedFolder, _app: App) -> Iterator[Problem]:
    """Check private endpoints and their zones."""
    for account in deployment.of(azure.STORAGE):
        if account.at("properties", "publicNetworkAccess") == "Disabled":
            yield from _private_account(account, deployment)
    for group in deployment.of(azure.ZONE_GROUP):
        yield from _zone_group(group)


def _services(endpoint: Deployed) -> list[Any]:
    """Return the services that a private endpoint leads to."""
    connections = endpoint.items("properties", "privateLinkServiceConnections")
    return [
        group for one in connections for group in one.get("properties", {}).get("groupIds") or []
    ]


def _private_account(account: Deployed, deployment: EvaluatedFolder) -> Iterator[Problem]:
    """Without public access, every service has an endpoint, and its name a zone."""
    endpoints, zones = deployment.of(azure.ENDPOINT), deployment.of(azure.ZONE)
    links = deployment.of(azure.ZONE_LINK)
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
    linked = {id(link.parent) for link in links}
    for zone in zones:
        if id(zone) not in linked:
            yield zone.problem("network", "the zone is linked to no network; link it")
    path = ("properties", "registrationEnabled")
    for link in links:
        if link.at(*path) is True:
            message = "a zone of private endpoints must not register machines; set this to false"
            yield link.problem("network", message, *path)
    grouped = {id(one.parent) for one in deployment.of(azure.ZONE_GROUP)}
    for endpoint in endpoints:
        if id(endpoint) not in grouped:
            yield endpoint.problem("network", "the endpoint has no zone group; add one")
    sites = deployment.of(azure.SITE)
    if not any(site.at("properties", "virtualNetworkSubnetId") for site in sites):
        message = "the account has no public access; put the app into a network"
        yield account.problem("network", message)


def _zone_group(group: Deployed) -> Iterator[Problem]:
    """The zone of an endpoint is that of its service."""
    services = _services(group.parent) if group.parent else []
    zones = [_ZONES.get(service, service) for service in services]
    for config in group.items("properties", "privateDnsZoneConfigs"):
        zone = config.get("properties", {}).get("privateDnsZoneId")
        name = shown(zone.of.name).split(".") if isinstance(zone, Ref) else []
        if zones and len(name) > 1 and name[1] not in zones:
            message = f"an endpoint of {services[0]} needs the zone of {zones[0]}, not {name[1]}"
            yield group.problem("network", message)
    if group.parent and not any(isinstance(leaf, Ref) for leaf in leaves(group.body)):
        yield group.problem("network", "the zone group has no zone; add one")
